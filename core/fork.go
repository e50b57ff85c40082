package core

import (
	"context"
)

// ForkSpec has the settings in which a fork differs from its source.
type ForkSpec struct {
	// Name is unique among the provider's live sandboxes.
	Name string
	// Labels replace the source's labels.
	Labels map[string]string
	// Timeout is the fork's lifetime, from now; 0 and NoTimeout mean no limit.
	Timeout Duration
}

// Forker copies running sandboxes, processes and memory included.
type Forker interface {
	// Fork copies a running sandbox: its processes, memory and files. The copy shares the source's volumes and nothing
	// else. The source pauses for a moment; its commands and connections continue.
	// The fork has the source's secrets, its own ports and lifetime, no connections, and a new journal. The provider
	// documents which processes cannot be copied.
	// lease is durable before anything is built. If Fork fails, nothing is left behind. KindConflict: the source is not
	// running, or the name is taken. KindUnsupported: this sandbox cannot be forked.
	Fork(ctx context.Context, id string, spec ForkSpec, lease Lease) (Sandbox, error)
}
