package setup

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Run is one run of a server.
type Run struct {
	Options
	// Service is every operation. It is closed after the run.
	Service *service.Service
	// Log receives the server's log records. It never writes to the protocol's stream.
	Log *slog.Logger
	// In and Out carry the protocol over stdio.
	In  io.Reader
	Out io.Writer
	// Err receives the URL of a listening server, once.
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

	// Secrets are given to every sandbox that is launched here, unless the launch has others of these names.
	Secrets []core.Secret

	// Images names the image that code in a language runs in when no sandbox is named: "python", "javascript", "bash".
	Images map[string]string

	// SoftDeadline is when a call answers with what there is so far; 0 is 45 s.
	SoftDeadline time.Duration
	// Budget is how many characters of output a reply has; 0 is 8000.
	Budget int

	// Policy is what may be launched.
	Policy service.LaunchPolicy
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

	// Transport carries the protocol; "" is Stdio. HTTP configures the other two.
	Transport Transport
	HTTP      HTTP
}

// Transport is how clients reach a server.
type Transport string

const (
	// Stdio is one client on stdin and stdout.
	Stdio Transport = "stdio"
	// StreamableHTTP serves /mcp.
	StreamableHTTP Transport = "streamable-http"
	// SSE serves /sse and /message, for clients of before 2025.
	SSE Transport = "sse"
)

// Transports names the transports.
func Transports() []string { return []string{string(Stdio), string(StreamableHTTP), string(SSE)} }

// HTTP says how a server listens. Both HTTP transports are served whichever was asked for.
type HTTP struct {
	// Host and Port are where it listens; port 0 is a free one.
	Host string
	Port int
	// TLSCert and TLSKey are PEM files; both or neither.
	TLSCert, TLSKey string
	// PublicURL is how clients reach the server, for links; "" is where it listens.
	PublicURL string
	// AllowHosts and AllowOrigins are taken in the headers Host and Origin beside the server's own.
	AllowHosts, AllowOrigins []string

	// KeysFile has the API keys.
	KeysFile string
	// LocalKeyFile has the key of the user's own programs, which is made when it is missing. It counts on loopback only.
	LocalKeyFile string
	// NoAuth serves every user and program of this machine without a key. It is for loopback, and only as long as
	// there is neither an API key nor an issuer.
	NoAuth bool
	// Issuer and Audience make tokens of an OAuth issuer valid: signed by it, for this audience.
	Issuer, Audience string

	// MaxBody bounds a request's body; 0 is 64 MiB.
	MaxBody int64
	// Rate is how many requests a second one owner may make; 0 is 50, negative no bound.
	Rate float64
	// HeaderTimeout is how long a request's headers may take; 0 is 10 s.
	HeaderTimeout time.Duration
	// MaxConnections bounds the connections; 0 is 1024.
	MaxConnections int
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

// The systems whose tool names and parameters can be served.
const (
	MCP4Modal           = "mcp4modal"
	DockerSandboxServer = "docker-sandbox-server"
	MCPSandbox          = "mcp-sandbox"
	CodeSandboxMCP      = "code-sandbox-mcp"
)

// Compats names them.
func Compats() []string { return []string{MCP4Modal, DockerSandboxServer, MCPSandbox, CodeSandboxMCP} }

// The toolsets.
const (
	Sandboxes = "sandboxes"
	Exec      = "exec"
	Files     = "files"
	Transfer  = "transfer"
	Packages  = "packages"
	Lifecycle = "lifecycle"
	State     = "state"
	Network   = "network"
	Stores    = "stores"
	Links     = "links"
	// Default is what is served when nothing is asked for, All is everything.
	Default = "default"
	All     = "all"
)

// Toolsets names the toolsets.
func Toolsets() []string {
	return []string{Default, All, Sandboxes, Exec, Files, Transfer, Packages, Lifecycle, State, Network, Stores, Links}
}
