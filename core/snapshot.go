package core

import (
	"context"
	"time"
)

// Snapshot is a sandbox's filesystem, kept for others to start from.
type Snapshot struct {
	// ID is what Spec.Snapshot takes.
	ID       string    `json:"id"`
	Provider string    `json:"provider"`
	Sandbox  string    `json:"sandbox"`
	Created  time.Time `json:"created"`
	// Size is 0 where it is not known.
	Size Bytes `json:"size,omitempty"`
	// Hint says what else can be done with it: "docker push …".
	Hint string `json:"hint,omitempty"`
}

// Snapshotter keeps filesystems. CapSnapshots says that the provider has it and takes Spec.Snapshot.
type Snapshotter interface {
	// Snapshot keeps the filesystem of a sandbox as it is now, volumes and secrets left out. Commands that run are
	// held up meanwhile. name is what the provider calls it; "" chooses one. An existing snapshot
	// of that name is replaced.
	Snapshot(ctx context.Context, id, name string) (Snapshot, error)
}

// Change is one file that a sandbox has and what it was launched from had otherwise.
type Change struct {
	Path string `json:"path"`
	// Kind is "added", "changed" or "deleted".
	Kind string `json:"kind"`
}

// Differ tells what changed in a sandbox's filesystem.
type Differ interface {
	// Diff returns the changes, sorted by path. Directories that were only written in are left out.
	Diff(ctx context.Context, id string) ([]Change, error)
}

// Snapshot keeps the filesystem of a sandbox under a name, or one that the provider chooses.
func (s *Service) Snapshot(ctx context.Context, ref, name string) (snapshot Snapshot, err error) {
	if name != "" && (hasControl(name) || name[0] == '-') {
		return Snapshot{}, invalid("name", "%q is no name for a snapshot", name)
	}
	err = s.act(ctx, "snapshot", ref, map[string]any{"name": name}, func(sb Sandbox, _ Provider) error {
		snapshotter, err := capable[Snapshotter](s, sb.Provider, "snapshot", CapSnapshots)
		if err != nil {
			return err
		}
		snapshot, err = snapshotter.Snapshot(ctx, sb.ID, name)
		return err
	})
	return snapshot, err
}
