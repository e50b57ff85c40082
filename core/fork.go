package core

import (
	"context"
)

// ForkSpec says what a fork has of its own; all else it has as its source.
type ForkSpec struct {
	// Name is unique among the provider's live sandboxes.
	Name string
	// Labels are all of the fork's labels.
	Labels map[string]string
	// Timeout is the fork's lifetime, from now; 0 and NoTimeout are none.
	Timeout Duration
}

// Forker copies running sandboxes, processes and memory included.
type Forker interface {
	// Fork makes a sandbox that goes on from where the one with that id is now: its processes, its memory and its
	// files, which change apart from then on. Volumes are shared. The source is held up for a moment and loses
	// nothing, its connections and commands included. The fork has new ports, no connections, a lifetime of its own and the source's
	// secrets, and its commands are journalled anew; the provider says which processes cannot be copied. lease is made durable before anything
	// is built; when Fork fails nothing is left behind.
	// KindConflict: the source is not running, or the name is taken. KindUnsupported: this one cannot be forked.
	Fork(ctx context.Context, id string, spec ForkSpec, lease Lease) (Sandbox, error)
}
