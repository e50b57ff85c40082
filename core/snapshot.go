package core

import (
	"context"
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
