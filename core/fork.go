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
	// Timeout is the fork's lifetime, counted from the fork; 0 and NoTimeout mean no limit.
	Timeout Duration
}

// Forker copies running sandboxes, processes and memory included.
type Forker interface {
	// Fork copies a running sandbox: its processes, memory and files. The copy shares only the source's volumes. The
	// source pauses for a moment; its commands and connections continue. The fork has the source's secrets, its own ports
	// and lifetime, no connections, and a new journal. The provider documents which processes cannot be copied. lease is
	// durable before Fork creates any object. If Fork fails, it removes all of them. KindConflict: the source is not
	// running, or the name is taken. KindUnsupported: this sandbox cannot be forked.
	Fork(ctx context.Context, id string, spec ForkSpec, lease Lease) (Sandbox, error)
}
