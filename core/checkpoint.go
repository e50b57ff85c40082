package core

import (
	"context"
	"time"
)

// Checkpoint is a sandbox that was kept as it was at one moment, memory and files, for others to go on from. It is as
// secret as the sandbox was: what its processes held in memory is in it.
type Checkpoint struct {
	// Name is what Spec.Checkpoint takes, unique at its provider.
	Name string `json:"name"`
	// ID is what the provider calls it, where that is not the name.
	ID       string `json:"id,omitempty"`
	Provider string `json:"provider"`
	// Sandbox and Of are the id and the name of the sandbox that it was made of, where that is known.
	Sandbox string    `json:"sandbox"`
	Of      string    `json:"of"`
	Created time.Time `json:"created"`
	// Expires is when the provider removes it; zero means never, or that it is not known.
	Expires time.Time `json:"expires,omitzero"`
	// Size is 0 where it is not known.
	Size Bytes `json:"size"`
	// Note says what is wrong with it; empty is nothing.
	Note string `json:"note,omitempty"`
	// Spec is that sandbox's, secrets without values. A launch from the checkpoint takes from it what it leaves open.
	Spec Spec `json:"spec"`
}

// Checkpointer keeps running sandboxes, memory included. CapCheckpoint says that the provider has it and takes Spec.Checkpoint.
type Checkpointer interface {
	// Checkpoint keeps a running sandbox as it is now, volumes left out, under a name. The sandbox goes on as with Forker.
	// Values of secrets are kept in it as far as processes hold them in memory, and where the provider itself keeps what a sandbox was launched with.
	// KindConflict: it does not run, was not launched for it, or there is a checkpoint of that name.
	Checkpoint(ctx context.Context, id, name string) (Checkpoint, error)
	// Checkpoints lists them, in no order.
	Checkpoints(ctx context.Context) ([]Checkpoint, error)
	// RemoveCheckpoint removes one. Sandboxes that were launched from it go on. KindNotFound: there is none of that name.
	RemoveCheckpoint(ctx context.Context, name string) error
}

// CheckpointFinder finds checkpoints that Checkpoints does not list: those that somebody else made, by the provider's id.
type CheckpointFinder interface {
	// FindCheckpoint returns one, without what is not known of it. KindNotFound: it is not the provider's.
	FindCheckpoint(ctx context.Context, id string) (Checkpoint, error)
}
