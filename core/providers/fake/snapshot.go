package fake

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// snapshot is a saved tree from which other sandboxes start.
type snapshot struct {
	core.Snapshot
	tree *tree
}

// snapshot returns a snapshot by its id.
func (p *Provider) snapshot(id string) (*snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.snapshots[id]; ok && (s.Expires.IsZero() || p.opts.Now().Before(s.Expires)) {
		return s, nil
	}
	return nil, core.Errorf(core.KindNotFound, "fake.snapshot", id, "there is no snapshot %q", id)
}

// saving returns a sandbox that can be saved.
func (k *Keeper) saving(ctx context.Context, id string) (*box, error) {
	if err := k.faults.meet(ctx, OpSave); err != nil {
		return nil, err
	}
	b, err := k.box(id)
	if err != nil {
		return nil, err
	}
	return b, b.ready()
}

// Snapshot implements core.Snapshotter.
func (k *Keeper) Snapshot(ctx context.Context, id string, opts core.SnapshotOptions) (core.Snapshot, error) {
	b, err := k.saving(ctx, id)
	if err != nil {
		return core.Snapshot{}, err
	}
	tree := b.tree.clone()
	if opts.Path != "" {
		n, err := tree.stat(opts.Path, true)
		if err != nil {
			return core.Snapshot{}, fileError("snapshot", opts.Path, err)
		}
		tree.root = &n
	}
	now := k.Provider.opts.Now()
	made := &snapshot{tree: tree, Snapshot: core.Snapshot{
		ID: cmp.Or(opts.Name, core.NewID("snap-")), Provider: k.Name(), Sandbox: id, Created: now,
		Size: core.Bytes(tree.root.total()), Path: opts.Path,
	}}
	if opts.TTL > 0 {
		made.Expires = now.Add(opts.TTL)
	}
	k.Provider.mu.Lock()
	defer k.Provider.mu.Unlock()
	if _, exists := k.snapshots[made.ID]; exists && !opts.Replace {
		return core.Snapshot{}, core.SnapshotExists(made.ID)
	}
	k.snapshots[made.ID] = made
	return made.Snapshot, nil
}

// Snapshots implements core.SnapshotStore.
func (k *Keeper) Snapshots(ctx context.Context) ([]core.Snapshot, error) {
	if err := k.faults.meet(ctx, OpSave); err != nil {
		return nil, err
	}
	k.Provider.mu.Lock()
	defer k.Provider.mu.Unlock()
	var list []core.Snapshot
	for _, s := range k.snapshots {
		list = append(list, s.Snapshot)
	}
	return list, nil
}

// RemoveSnapshot implements core.SnapshotStore.
func (k *Keeper) RemoveSnapshot(ctx context.Context, id string) error {
	if err := k.faults.meet(ctx, OpSave); err != nil {
		return err
	}
	k.Provider.mu.Lock()
	defer k.Provider.mu.Unlock()
	return take(k.snapshots, "snapshot", id)
}

// Diff implements core.Differ.
func (k *Keeper) Diff(ctx context.Context, id string) ([]core.Change, error) {
	b, err := k.saving(ctx, id)
	if err != nil {
		return nil, err
	}
	var changes []core.Change
	compare("/", b.base.clone().root, b.tree.clone().root, func(change core.Change) { changes = append(changes, change) })
	slices.SortFunc(changes, func(a, b core.Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}

// compare reports the differences between two directories.
func compare(dir string, before, after *node, report func(core.Change)) {
	for name, was := range before.children {
		if after.children[name] == nil {
			report(core.Change{Path: path.Join(dir, name), Kind: "deleted"})
			continue
		}
		is := after.children[name]
		at := path.Join(dir, name)
		if was.mode != is.mode || was.link != is.link || was.uid != is.uid || was.gid != is.gid ||
			string(was.data) != string(is.data) {
			report(core.Change{Path: at, Kind: "changed"})
		}
		if is.children != nil {
			compare(at, was, is, report)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after.children)) {
		if before.children[name] != nil {
			continue
		}
		at := path.Join(dir, name)
		report(core.Change{Path: at, Kind: "added"})
		compare(at, &node{}, after.children[name], report)
	}
}

// MountImage implements core.ImageMounter. It copies the snapshot's files to target.
func (k *Keeper) MountImage(ctx context.Context, id, image, target string) error {
	b, err := k.saving(ctx, id)
	if err != nil {
		return err
	}
	from, err := k.snapshot(image)
	if err != nil {
		return err
	}
	if _, err := b.tree.stat(target, false); err == nil {
		return core.Errorf(core.KindConflict, "fake.mount", target, "something is at %s already", target)
	}
	mounted := from.tree.clone().root
	mounted.modTime = time.Time{}
	if err := b.tree.mkdir(path.Dir(target), true, 0); err != nil {
		return fileError("mount", target, err)
	}
	return fileError("mount", target, b.tree.add("mount", target, mounted))
}

// UnmountImage implements core.ImageMounter.
func (k *Keeper) UnmountImage(ctx context.Context, id, target string) error {
	b, err := k.saving(ctx, id)
	if err != nil {
		return err
	}
	return fileError("unmount", target, b.tree.remove(target, true))
}
