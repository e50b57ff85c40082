package providers

import (
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker"
	"github.com/seed-0724f904/sb/core/providers/local"
	"github.com/seed-0724f904/sb/core/providers/modal"
)

// Options configure all providers.
type Options struct {
	// StateDir and CacheDir are sb's own directories.
	StateDir, CacheDir string
	// Runtime is the path of sb-runtime; "" looks for it.
	Runtime string
	// SaveInterval, FreezeAfter and LogLimit are as in local.Options.
	SaveInterval, FreezeAfter time.Duration
	LogLimit                  core.Bytes
	// Spares and SpareAge are as in local.Options.
	Spares   int
	SpareAge time.Duration
	// Registries configures the images of sandboxes on this machine.
	Registries core.Registries
	// MaxImages is as in local.Options.
	MaxImages core.Bytes
	// PipIndex, AptMirror and NPMRegistry are as in local.Options.
	PipIndex, AptMirror, NPMRegistry string
	// Docker configures the docker provider; its CacheDir is filled in.
	Docker Docker
}

// Docker configures the docker provider.
type Docker = docker.Options

// Builtin returns the providers in placement order.
func Builtin(o Options) []core.Factory {
	o.Docker.CacheDir = o.CacheDir
	return []core.Factory{
		local.Factory(local.Options{
			StateDir: o.StateDir, CacheDir: o.CacheDir, Runtime: o.Runtime,
			SaveInterval: o.SaveInterval, FreezeAfter: o.FreezeAfter, LogLimit: o.LogLimit,
			Spares: o.Spares, SpareAge: o.SpareAge,
			Registries: o.Registries, Engine: docker.NewImages(o.Docker),
			MaxImages: o.MaxImages,
			PipIndex:  o.PipIndex, AptMirror: o.AptMirror, NPMRegistry: o.NPMRegistry,
		}),
		docker.Factory(o.Docker),
		modal.Factory(modal.Options{CacheDir: o.CacheDir, StateDir: o.StateDir}),
	}
}
