package core

import (
	"context"
	"time"
)

// Snapshot is a saved filesystem of a sandbox. New sandboxes can start from it.
type Snapshot struct {
	// ID is the value for Spec.Snapshot.
	ID string `json:"id"`
	// Name is the caller's name for it, if it differs from the id.
	Name     string `json:"name,omitempty"`
	Provider string `json:"provider"`
	// Sandbox is the id of the source sandbox, where known.
	Sandbox string    `json:"sandbox,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Expires is when the provider removes it; zero means never or unknown.
	Expires time.Time `json:"expires,omitzero"`
	// Path is the saved directory; "" means the whole filesystem.
	Path string `json:"path,omitempty"`
	// Size is 0 if it is unknown.
	Size Bytes `json:"size,omitempty"`
	// Note describes a problem with it; "" means none.
	Note string `json:"note,omitempty"`
	// Hint is a command that can use it elsewhere: "docker push …".
	Hint string `json:"hint,omitempty"`
}

// SnapshotOptions are the options of a snapshot. The zero value saves the whole filesystem with the provider's
// defaults.
type SnapshotOptions struct {
	// Name is its name at the provider; "" chooses one.
	Name string
	// Replace overwrites an existing snapshot of that name.
	Replace bool
	// TTL is its lifetime; 0 means the provider's default, which can be unlimited. It needs CapSnapshotTTL.
	TTL time.Duration
	// NoExpiry keeps it until its removal. It needs CapSnapshotTTL.
	NoExpiry bool
	// Path saves only this directory, an absolute path. The result can be mounted (ImageMounter) but not launched from. It
	// needs CapSnapshotPath.
	Path string
}

// Snapshotter saves filesystems. With CapSnapshots the provider also accepts Spec.Snapshot.
type Snapshotter interface {
	// Snapshot saves the current filesystem of a sandbox, without volumes and secrets. Running commands pause during that
	// time. opts requires no capability that the provider lacks. KindConflict: the name is taken and opts does not replace
	// it; the old snapshot stays.
	Snapshot(ctx context.Context, id string, opts SnapshotOptions) (Snapshot, error)
}

// SnapshotExists returns the error for a name that is taken.
func SnapshotExists(name string) error {
	return Errorf(KindConflict, "snapshot", name, "there is a snapshot %q already", name).
		WithHint("choose another name, or replace it with --replace")
}

// SnapshotStore manages snapshots.
type SnapshotStore interface {
	// Snapshots returns the snapshots in no order. They include snapshots that others took of this provider's sandboxes.
	Snapshots(ctx context.Context) ([]Snapshot, error)
	// RemoveSnapshot removes a snapshot by its id or name. KindConflict: a sandbox still needs it.
	RemoveSnapshot(ctx context.Context, id string) error
}

// SnapshotFinder recognizes the provider's own snapshots without a search, so that placement needs no other provider.
type SnapshotFinder interface {
	// HasSnapshot reports whether id is a snapshot of this provider that Spec.Snapshot accepts.
	HasSnapshot(ctx context.Context, id string) (bool, error)
}

// Change is a file that differs between a sandbox and its image.
type Change struct {
	Path string `json:"path"`
	// Kind is "added", "changed" or "deleted".
	Kind string `json:"kind"`
}

// Differ returns the changes in a sandbox's filesystem. Its capability is CapDiff.
type Differ interface {
	// Diff returns the changes, sorted by path. It omits directories in which only entries changed.
	Diff(ctx context.Context, id string) ([]Change, error)
}
