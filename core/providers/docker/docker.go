package docker

import (
	"os"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Name is the provider's name.
const Name = "docker"

// IDPrefix begins each sandbox's id; the beginning of its container's id follows.
const IDPrefix = "dkr-"

// NoHost as Options.Host disables the search for an engine.
const NoHost = engine.NoHost

// DefaultImage is the image of a launch that names none.
const DefaultImage = "debian:bookworm-slim"

// Options configure the provider. With the zero value, the provider searches for the engine and for sb-guest.
type Options struct {
	// Host is the engine's address, as in DOCKER_HOST; "" searches for an engine, and NoHost finds none.
	Host string
	// Image is the default image; "" is DefaultImage.
	Image string
	// Runtime is the engine's runtime for sandboxes, as "runsc" or "kata"; "" is the engine's default.
	Runtime string
	// GPUs is the type and number of the engine's GPUs, which no engine reports: "H100:2". The zero value offers none.
	GPUs core.GPU
	// Guest is the path of sb-guest, built for the engine's system; "" looks for it.
	Guest string
	// EngineOnly makes every call to a sandbox through the engine. Users without root on its machine have no other path.
	EngineOnly bool
	// CacheDir caches the facts of engines; "" disables the cache.
	CacheDir string
	// LogLimit bounds the entry command's log; 0 is 16 MiB.
	LogLimit core.Bytes
	// LookupEnv reads the caller's environment; nil is os.LookupEnv.
	LookupEnv func(string) (string, bool)
}

// Factory returns the factory of the provider.
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
	p.Files = guest.NewFiles(Name, files{p: p})
	return p, nil
}
