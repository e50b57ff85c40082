package cli

import (
	"time"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// App has the dependencies of commands. Those that can fail or touch the disk are functions, called when needed.
type App struct {
	Streams *iostreams.Streams
	Signals *Signals
	Build   Build
	// LookupEnv reads the caller's environment.
	LookupEnv func(key string) (value string, ok bool)
	Now       func() time.Time
	// Actor is who acts, in leases and in the audit log.
	Actor string
	// ConfigFile is the file named by --config, or "".
	ConfigFile string
	Paths      func() (configs.Paths, error)
	Config     func() (configs.Loaded, error)
	Service    func() (*service.Service, error)
	// Become and ServeMCP are as in Process.
	Become   func(program string) error
	ServeMCP setup.Serve
}

// Table makes a table for stdout.
func (a *App) Table(headers ...string) *output.Table {
	return output.NewTable(a.Streams.Width(), a.Streams.Color(), headers...)
}

// Process is what a program has from its operating system.
type Process struct {
	Streams   *iostreams.Streams
	LookupEnv func(key string) (value string, ok bool)
	Signals   *Signals
	Build     Build
	// Become replaces the process by another program with the same arguments and
	// environment. It returns only when it fails.
	Become func(program string) error
	// ServeMCP serves the Model Context Protocol; nil becomes sb-mcp for that.
	ServeMCP setup.Serve
}
