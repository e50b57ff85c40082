// Package setup says how a server of the Model Context Protocol is set up. It links nothing of the protocol, so
// that sb can read flags without the cost of starting what serves them.
package setup

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Run is one run of a server.
type Run struct {
	Options
	// Service is every operation. It is closed after the run.
	Service *core.Service
	// Log is told what goes on. It never writes to the protocol's stream.
	Log *slog.Logger
	// In and Out carry the protocol over stdio.
	In  io.Reader
	Out io.Writer
	// Err is told, once, where a server listens.
	Err io.Writer
}

// Serve runs a server until ctx ends or its client is gone.
type Serve func(ctx context.Context, run Run) error

// Options say what a Server serves, and to whom.
type Options struct {
	// Version is sb's own.
	Version string

	// Toolsets and Tools select what is served; both empty is the default toolset.
	Toolsets, Tools []string
	// ReadOnly leaves out every tool that changes something.
	ReadOnly bool
	// Compat serves another system's tool names and parameters instead of sb's.
	Compat string

	// SoftDeadline is when a call answers with what there is so far; 0 is 45 s.
	SoftDeadline time.Duration
	// Budget is how many characters of output a reply has; 0 is 8000.
	Budget int

	// Policy is what may be launched.
	Policy core.Policy
	// NamePrefix begins the names of sandboxes launched here; "" is "mcp-".
	NamePrefix string
	// MaxSandboxes bounds the live sandboxes of one owner that were launched here; 0 is no bound.
	MaxSandboxes int
	// OnDisconnect is what becomes of a session's sandboxes when its client is gone.
	OnDisconnect OnDisconnect
	// Lease is how long sandboxes outlive their client under Lease; 0 is 15 min.
	Lease time.Duration

	// AllowPaths are the host directories that push and pull may touch, besides the client's roots.
	AllowPaths []string
	// UseRoots lets a client's roots widen AllowPaths; over HTTP roots name the client's machine, not this one.
	UseRoots bool
	// NoElicit never asks the user; what would be asked is done.
	NoElicit bool
}

// OnDisconnect is what becomes of a session's sandboxes when its client is gone.
type OnDisconnect string

const (
	// Lease lets them end by themselves some time later, so that a client that comes back finds them.
	Lease OnDisconnect = "lease"
	// Terminate ends them at once.
	Terminate OnDisconnect = "terminate"
	// Detach leaves them to their own timeout.
	Detach OnDisconnect = "detach"
)

// The toolsets.
const (
	Sandboxes = "sandboxes"
	Exec      = "exec"
	Files     = "files"
	Transfer  = "transfer"
	Packages  = "packages"
	Lifecycle = "lifecycle"
	Links     = "links"
	// Default is what is served when nothing is asked for, All is everything.
	Default = "default"
	All     = "all"
)

// Toolsets names the toolsets.
func Toolsets() []string {
	return []string{Default, All, Sandboxes, Exec, Files, Transfer, Packages, Lifecycle, Links}
}
