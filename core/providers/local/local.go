package local

import (
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// Name is the provider's name.
const Name = "local"

// HostImage is the image that needs no download: this machine's own programs.
const HostImage = core.HostImage

// Options configure the provider.
type Options struct {
	// StateDir holds the sandboxes and their sockets. CacheDir holds the writable layers of running sandboxes.
	StateDir, CacheDir string
	// Runtime is the path of sb-runtime; "" looks beside this program, then in PATH.
	Runtime string
	// SaveInterval is how often a persistent sandbox is saved while it changes.
	SaveInterval time.Duration
	// FreezeAfter is how long an idle sandbox stays awake; 0 disables freezing.
	FreezeAfter time.Duration
	// Spares is how many sandboxes are prepared for later launches; 0 is none. SpareAge is the time until an unused one
	// ends.
	Spares   int
	SpareAge time.Duration
	// HostDirs are the only directories that may contain a host directory to mount. nil allows all that are not sb's own:
	// the service decides then.
	HostDirs []string
	// HostOnly offers no image but HostImage, and no volumes with names.
	HostOnly bool
	// Registries configures the downloads of images.
	Registries core.Registries
	// Engine has the images "docker-daemon:NAME"; nil has none.
	Engine image.Engine
	// MaxImages bounds the size of the stored images; 0 is no bound. Images in use stay.
	MaxImages core.Bytes
	// PipIndex is the address of the package index for pip. AptMirror is the address of the archive for apt, in the place
	// of those in an image: "http://mirror.example/debian". "" is the tool's own.
	PipIndex, AptMirror string
	// NPMRegistry is the address of the package registry of npm in sandboxes and builds; "" is npm's own.
	NPMRegistry string
	// LogLimit bounds the entry command's log.
	LogLimit core.Bytes
}

// Factory returns the provider's factory.
func Factory(opts Options) core.Factory {
	return core.Factory{Name: Name, IDPrefix: store.IDPrefix, Open: func() (core.Provider, error) { return New(opts) }}
}
