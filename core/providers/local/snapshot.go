//go:build linux

package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// snapshotFile is the description beside a snapshot's files.
type snapshotFile struct {
	core.Snapshot
	// Root is the id of the image below the files; "" is this machine's programs.
	Root string `json:"root,omitempty"`
}

// Snapshot implements core.Snapshotter. It keeps the writable layer only: the layers below belong to this machine or an
// image. For a stopped sandbox it keeps the saved files.
func (p *Provider) Snapshot(ctx context.Context, id string, opts core.SnapshotOptions) (core.Snapshot, error) {
	source, err := p.Get(ctx, id)
	if err != nil {
		return core.Snapshot{}, err
	}
	now := time.Now()
	name := opts.Name
	if name == "" {
		name = source.Name + now.UTC().Format("-20060102-150405")
	}
	if err := core.ValidateName("snapshot", name); err != nil {
		return core.Snapshot{}, err
	}
	if _, err := p.store.Snapshots().Read(name, nil); err == nil && !opts.Replace {
		return core.Snapshot{}, core.SnapshotExists(name)
	}
	root, err := p.store.Root(id)
	if err != nil {
		return core.Snapshot{}, stateError("snapshot", err)
	}
	hint := "sb launch --snapshot " + name
	if root != "" {
		if err := p.freeForSnapshot(ctx, name); err != nil {
			return core.Snapshot{}, err
		}
		hint = "sb launch --image " + name + ", or sb image push " + name + " REGISTRY/REPOSITORY:TAG"
	}
	release, err := p.holdImage(ctx, root)
	if err != nil {
		return core.Snapshot{}, err
	}
	defer release()
	draft, err := p.store.Snapshots().Draft()
	if err != nil {
		return core.Snapshot{}, stateError("snapshot", err)
	}
	defer draft.Close()
	files := filepath.Join(draft.Dir, store.SavedDir)
	note := ""
	switch source.State {
	case core.StateRunning:
		if _, err := p.writeOut(ctx, id, wire.VerbSnapshot, files); err != nil {
			return core.Snapshot{}, err
		}
		if err := store.Seal(files); err != nil {
			return core.Snapshot{}, stateError("snapshot", err)
		}
	case core.StateStopped:
		if note, err = p.linkSaved(source, files); err != nil {
			return core.Snapshot{}, stateError("snapshot", err)
		}
	case core.StateQueued, core.StateCreating, core.StatePaused, core.StateExited, core.StateFailed, core.StateLost:
		return core.Snapshot{}, notRunning(source)
	}
	made := core.Snapshot{
		ID: name, Provider: Name, Sandbox: id, Created: now, Size: treeSize(draft.Dir), Hint: hint,
		Note: note,
	}
	err = draft.Publish(name, snapshotFile{made, root}, opts.Replace)
	if errors.Is(err, fs.ErrExist) {
		return core.Snapshot{}, core.SnapshotExists(name)
	}
	return made, stateError("snapshot", err)
}

// linkSaved links the saved files of a stopped sandbox to a second directory. Saved files are never written to. note
// describes the damage of newer saved files.
func (p *Provider) linkSaved(source core.Sandbox, to string) (note string, err error) {
	generation, damage, err := p.saved(source)
	if err != nil {
		return "", err
	}
	if generation == 0 {
		return "", core.Errorf(core.KindConflict, "local.snapshot", source.Name, "the sandbox has no saved files")
	}
	if damage != nil {
		note = fmt.Sprintf("%v; these are the files of generation %d", damage, generation)
	}
	from := store.SavesIn(p.store.Dir(source.ID)).Dir(generation)
	entries, err := os.ReadDir(from)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", err
	}
	for _, e := range entries {
		if err := os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return "", err
		}
	}
	return note, store.SyncDir(to)
}

// Snapshots implements core.SnapshotStore.
func (p *Provider) Snapshots(ctx context.Context) ([]core.Snapshot, error) {
	names, err := p.store.Snapshots().Names()
	if err != nil {
		return nil, stateError("snapshots", err)
	}
	list := make([]core.Snapshot, 0, len(names))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var snapshot core.Snapshot
		dir, err := p.store.Snapshots().Read(name, &snapshot)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed after Names
		}
		if err != nil {
			snapshot = core.Snapshot{ID: name, Provider: Name, Size: treeSize(dir), Note: cannotRead(err)}
		}
		list = append(list, snapshot)
	}
	return list, nil
}

// cannotRead is the note of a snapshot or a checkpoint whose description is lost or damaged.
func cannotRead(why error) string { return "it cannot be read: " + why.Error() }

// RemoveSnapshot implements core.SnapshotStore. A running sandbox does not need its snapshot.
func (p *Provider) RemoveSnapshot(_ context.Context, id string) error {
	if core.ValidateName("snapshot", id) != nil {
		return noSnapshot(id)
	}
	err := p.store.Snapshots().Remove(id)
	if errors.Is(err, fs.ErrNotExist) {
		return noSnapshot(id)
	}
	return stateError("snapshot", err)
}

func noSnapshot(id string) error {
	return core.Errorf(core.KindNotFound, "local.snapshot", id, "there is no snapshot %q", id).
		WithHint("sb snapshot ls lists them")
}

// HasSnapshot implements core.SnapshotFinder.
func (p *Provider) HasSnapshot(_ context.Context, id string) (bool, error) {
	if core.ValidateName("snapshot", id) != nil {
		return false, nil
	}
	_, err := p.store.Snapshots().Read(id, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil && !store.IsDamage(err):
		return false, stateError("snapshot", err)
	}
	return true, nil // also for a damaged one
}

// snapshotFiles returns the directory of a snapshot's files.
func (p *Provider) snapshotFiles(id string) (string, error) {
	if has, err := p.HasSnapshot(context.Background(), id); err != nil || !has {
		return "", cmp.Or(err, noSnapshot(id))
	}
	dir, err := p.store.Snapshots().Read(id, nil)
	files := filepath.Join(dir, store.SavedDir)
	if err == nil {
		err = store.Check(files)
	}
	if store.IsDamage(err) {
		return "", core.Errorf(core.KindConflict, "local.launch", id, "the snapshot cannot be used: %w", err).
			WithHint("restore it from a backup, or remove it: sb snapshot rm %s", id)
	}
	return files, stateError("launch", err)
}

// Diff implements core.Differ. For a sandbox from a snapshot it includes the changes of the snapshot.
func (p *Provider) Diff(ctx context.Context, id string) ([]core.Change, error) {
	if !store.ValidID(id) {
		return nil, notFound(id)
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, core.Wrap("local.diff", id, err)
	}
	text := make(chan []byte, 1)
	go func() {
		var buffer bytes.Buffer
		_, _ = io.Copy(&buffer, out)
		text <- buffer.Bytes()
	}()
	_, err = p.control(ctx, id, &wire.Request{Verb: wire.VerbDiff}, in)
	_ = in.Close()
	answer := <-text
	_ = out.Close()
	if err != nil {
		return nil, err
	}
	changes := []core.Change{}
	if err := json.Unmarshal(answer, &changes); err != nil {
		return nil, core.Errorf(core.KindInternal, "local.diff", id, "the supervisor's answer was cut short: %w", err)
	}
	return changes, nil
}
