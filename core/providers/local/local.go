package local

import (
	"time"

	"github.com/seed-0724f904/sb/core"
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
	// HostDirs are the directories that may contain a volume's source. Without any there are no volumes.
	HostDirs []string
	// HostOnly offers no image but HostImage.
	HostOnly bool
	// LogLimit bounds the entry command's log.
	LogLimit core.Bytes
}

// Factory returns the provider's factory.
func Factory(opts Options) core.Factory {
	return core.Factory{Name: Name, IDPrefix: store.IDPrefix, Open: func() (core.Provider, error) { return New(opts) }}
}
