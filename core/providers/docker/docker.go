package docker

import (
	"os"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Name is the provider's name.
const Name = "docker"

// IDPrefix begins each sandbox's id; what follows is the beginning of its container's id.
const IDPrefix = "dkr-"

// NoHost is the Options.Host with which no engine is found.
const NoHost = engine.NoHost

// DefaultImage is launched when nothing else is asked for.
const DefaultImage = "debian:bookworm-slim"

// Options configure the provider. With the zero value, the provider searches for the engine and for sb-guest.
type Options struct {
	// Host is the engine's address, as in DOCKER_HOST; "" looks for one, and NoHost does not.
	Host string
	// Image is the default image; "" is DefaultImage.
	Image string
	// Runtime is the engine's runtime for sandboxes, as "runsc" or "kata"; "" is the engine's default.
	Runtime string
	// GPUs is the type and number of the engine's GPUs, which no engine reports: "H100:2". The zero value offers none.
	GPUs core.GPU
	// Mounts lists host directories that volumes may come from, with all below them.
	Mounts []string
	// Guest is the path of sb-guest, built for the engine's system; "" looks for it.
	Guest string
	// EngineOnly makes every call to a sandbox through the engine, as users must that are not root on its machine.
	EngineOnly bool
	// CacheDir keeps what is known of engines; "" keeps nothing.
	CacheDir string
	// LogLimit bounds the entry command's log; 0 is 16 MiB.
	LogLimit core.Bytes
	// LookupEnv reads the caller's environment; nil is os.LookupEnv.
	LookupEnv func(string) (string, bool)
}

// Factory returns how the provider is opened.
func Factory(opts Options) core.Factory {
	return core.Factory{Name: Name, IDPrefix: IDPrefix, Open: func() (core.Provider, error) { return New(opts) }}
}

// New returns the provider. It does no I/O.
func New(opts Options) (core.Provider, error) {
	if opts.Image == "" {
		opts.Image = DefaultImage
	}
	if opts.LogLimit == 0 {
		opts.LogLimit = 16 * core.MiB
	}
	if opts.LookupEnv == nil {
		opts.LookupEnv = os.LookupEnv
	}
	p := &Provider{opts: opts, known: map[string]known{}, spares: map[string]*spare{}}
	p.Files = guest.NewFiles(Name, files{p})
	return p, nil
}
