package core

import (
	"context"
	"time"
)

// Checkpoint is the saved memory and files of a sandbox. New sandboxes can start from it. It is as secret as the
// sandbox: it contains the memory of its processes.
type Checkpoint struct {
	// Name is the value for Spec.Checkpoint, unique at its provider.
	Name string `json:"name"`
	// ID is the provider's own id, where it differs from the name.
	ID       string `json:"id,omitempty"`
	Provider string `json:"provider"`
	// Sandbox and Of are the id and the name of the source sandbox, where known.
	Sandbox string    `json:"sandbox"`
	Of      string    `json:"of"`
	Created time.Time `json:"created"`
	// Expires is when the provider removes it; zero means never or unknown.
	Expires time.Time `json:"expires,omitzero"`
	// Size is 0 if it is unknown.
	Size Bytes `json:"size"`
	// Note describes a problem with it; "" means none.
	Note string `json:"note,omitempty"`
	// Spec is the spec of the source sandbox, secrets without values. A launch from the checkpoint inherits the fields
	// that it leaves open.
	Spec Spec `json:"spec"`
}

// Checkpointer saves running sandboxes, memory included. With CapCheckpoint the provider also accepts Spec.Checkpoint.
type Checkpointer interface {
	// Checkpoint saves a running sandbox under a name, without its volumes. The sandbox keeps running, as with Forker.
	// The checkpoint contains the secrets that processes hold in memory, and those in the provider's own record of the
	// launch.
	// KindConflict: the sandbox does not run, was not launched for checkpoints, or the name is taken.
	Checkpoint(ctx context.Context, id, name string) (Checkpoint, error)
	// Checkpoints returns the checkpoints in no order.
	Checkpoints(ctx context.Context) ([]Checkpoint, error)
	// RemoveCheckpoint removes a checkpoint. Sandboxes that were launched from it keep running. KindNotFound: there is
	// none of that name.
	RemoveCheckpoint(ctx context.Context, name string) error
}

// CheckpointFinder finds checkpoints that Checkpoints does not list, such as those of other users, by the provider's
// id.
type CheckpointFinder interface {
	// FindCheckpoint returns a checkpoint; unknown fields are zero. KindNotFound: the provider does not have it.
	FindCheckpoint(ctx context.Context, id string) (Checkpoint, error)
}
