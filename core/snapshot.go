package core

import (
	"context"
	"path"
	"time"
)

// Snapshot is a sandbox's filesystem, kept for others to start from.
type Snapshot struct {
	// ID is what Spec.Snapshot takes.
	ID string `json:"id"`
	// Name is what the caller called it, where that is not the id.
	Name     string `json:"name,omitempty"`
	Provider string `json:"provider"`
	// Sandbox is the id of the sandbox it was made of, where that is known.
	Sandbox string    `json:"sandbox,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Expires is when the provider removes it; zero means never, or that it is not known.
	Expires time.Time `json:"expires,omitzero"`
	// Path is the directory that was kept, when not the whole filesystem was.
	Path string `json:"path,omitempty"`
	// Size is 0 where it is not known.
	Size Bytes `json:"size,omitempty"`
	// Note says what is wrong with it; empty is nothing.
	Note string `json:"note,omitempty"`
	// Hint says what else can be done with it: "docker push …".
	Hint string `json:"hint,omitempty"`
}

// SnapshotOptions say what is kept and how long. The zero value keeps everything as the provider is used to.
type SnapshotOptions struct {
	// Name is what the provider calls it; "" chooses one.
	Name string
	// Replace lets it take the place of a snapshot of that name.
	Replace bool
	// TTL is how long it is kept; 0 is the provider's own time, which can be for ever. CapSnapshotTTL.
	TTL time.Duration
	// NoExpiry keeps it until it is removed. CapSnapshotTTL.
	NoExpiry bool
	// Path keeps one directory, an absolute path, instead of the whole filesystem; the result can be
	// mounted (ImageMounter) but not launched from. CapSnapshotPath.
	Path string
}

// Snapshotter keeps filesystems. CapSnapshots says that the provider has it and takes Spec.Snapshot.
type Snapshotter interface {
	// Snapshot keeps the filesystem of a sandbox as it is now, volumes and secrets left out. Commands that run are
	// held up meanwhile. opts asks for nothing that the provider's capabilities exclude.
	// KindConflict: there is a snapshot of that name, and opts does not replace it. Then nothing has changed.
	Snapshot(ctx context.Context, id string, opts SnapshotOptions) (Snapshot, error)
}

// SnapshotExists is the error of a Snapshotter that replaces nothing.
func SnapshotExists(name string) error {
	return Errorf(KindConflict, "snapshot", name, "there is a snapshot %q already", name).
		WithHint("choose another name, or replace it with --replace")
}

// SnapshotStore knows the snapshots that were made.
type SnapshotStore interface {
	// Snapshots returns them in no order; those that others made of this provider's sandboxes, too.
	Snapshots(ctx context.Context) ([]Snapshot, error)
	// RemoveSnapshot removes one by its id or name. KindConflict: a sandbox still needs it.
	RemoveSnapshot(ctx context.Context, id string) error
}

// snapshotOwner is the provider that says at once that a snapshot is its own, or else the only one that lists its id or name, or "".
func (s *Service) snapshotOwner(ctx context.Context, id string) string {
	for _, lazy := range s.lazyProviders {
		p, err := lazy.open()
		if err != nil {
			continue
		}
		if finder, ok := As[SnapshotFinder](p); ok {
			if has, err := finder.HasSnapshot(ctx, id); err == nil && has {
				return lazy.factory.Name
			}
		}
	}
	found, err := s.Snapshots(ctx, "")
	if err != nil {
		return ""
	}
	owner := ""
	for _, snapshot := range found.Items {
		if snapshot.ID == id || snapshot.Name == id {
			if owner != "" && owner != snapshot.Provider {
				return ""
			}
			owner = snapshot.Provider
		}
	}
	return owner
}

// SnapshotFinder knows at once whether a snapshot is its own, so that placement asks no other provider for it, and it for no
// other's.
type SnapshotFinder interface {
	// HasSnapshot says whether Spec.Snapshot may name it.
	HasSnapshot(ctx context.Context, id string) (bool, error)
}

// Change is one file that a sandbox has and what it was launched from had otherwise.
type Change struct {
	Path string `json:"path"`
	// Kind is "added", "changed" or "deleted".
	Kind string `json:"kind"`
}

// Differ tells what changed in a sandbox's filesystem. Its capability is CapDiff.
type Differ interface {
	// Diff returns the changes, sorted by path. Directories that were only written in are left out.
	Diff(ctx context.Context, id string) ([]Change, error)
}

// Snapshot keeps the filesystem of a sandbox, or one directory of it.
func (s *Service) Snapshot(ctx context.Context, ref string, opts SnapshotOptions) (snapshot Snapshot, err error) {
	if err := opts.validate(); err != nil {
		return Snapshot{}, err
	}
	err = s.act(ctx, "snapshot", ref, opts.args(), func(sb Sandbox, p Provider) error {
		snapshotter, err := capable[Snapshotter](s, sb.Provider, "snapshot", CapSnapshots)
		if err != nil {
			return err
		}
		if (opts.TTL != 0 || opts.NoExpiry) && !p.Capabilities().Can(CapSnapshotTTL) {
			return s.unsupported(sb.Provider, "snapshot", CapSnapshotTTL)
		}
		if opts.Path != "" && !p.Capabilities().Can(CapSnapshotPath) {
			return s.unsupported(sb.Provider, "snapshot", CapSnapshotPath)
		}
		snapshot, err = snapshotter.Snapshot(ctx, sb.ID, opts)
		return err
	})
	return snapshot, err
}

func (o SnapshotOptions) validate() error {
	switch {
	case o.Name != "" && (hasControl(o.Name) || o.Name[0] == '-'):
		return invalid("name", "%q is no name for a snapshot", o.Name)
	case o.TTL < 0 || o.TTL > 0 && o.TTL < time.Second || o.TTL > maxLifetime:
		return invalid("ttl", "%s is not between one second and ten years", o.TTL)
	case o.TTL != 0 && o.NoExpiry:
		return invalid("ttl", "it cannot be kept both for %s and for ever", o.TTL)
	case o.Path != "" && !path.IsAbs(o.Path):
		return invalid("path", "%q is not an absolute path", o.Path)
	}
	return nil
}

// args is what the audit log keeps of the options.
func (o SnapshotOptions) args() map[string]any {
	args := map[string]any{"name": o.Name}
	if o.TTL != 0 {
		args["ttl"] = Duration(o.TTL)
	}
	if o.NoExpiry {
		args["no_expiry"] = true
	}
	if o.Path != "" {
		args["path"] = o.Path
	}
	return args
}

// Snapshots lists the snapshots that a provider keeps; "" asks all providers.
func (s *Service) Snapshots(ctx context.Context, provider string) (Inventory[Snapshot], error) {
	return inventory(ctx, s, provider, "snapshot ls", CapSnapshotStore, SnapshotStore.Snapshots)
}

// RemoveSnapshot removes a snapshot. provider may be "" when only one that is set up keeps snapshots.
func (s *Service) RemoveSnapshot(ctx context.Context, provider, id string) error {
	if provider == "" {
		provider = s.snapshotOwner(ctx, id)
	}
	return stored(ctx, s, provider, "snapshot rm", id, CapSnapshotStore, nil, func(store SnapshotStore) error {
		return store.RemoveSnapshot(ctx, id)
	})
}
