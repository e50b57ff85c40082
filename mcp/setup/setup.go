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
	// Service has every operation. It is closed after the run.
	Service *service.Service
	// Log receives the server's log records. It never writes to the protocol's stream.
	Log *slog.Logger
	// In and Out carry the protocol over stdio.
	In  io.Reader
	Out io.Writer
	// Err receives the URL of a listening server, once.
	Err io.Writer
}

// Serve runs a server until ctx ends or its client disconnects.
type Serve func(ctx context.Context, run Run) error

// Options configure a server: its tools, its limits and its transport.
type Options struct {
	// Version is the version of sb.
	Version string

	// Toolsets and Tools select the tools; if both are empty, the default toolset is served.
	Toolsets, Tools []string
	// ReadOnly leaves out every tool that changes something.
	ReadOnly bool
	// Exclude leaves out tools by name.
	Exclude []string
	// NoPictures replaces pictures in results by a text.
	NoPictures bool
	// Compat serves another system's tool names and parameters instead of sb's.
	Compat string

	// Secrets are added to every sandbox that is launched here, unless the launch has a secret of the same name.
	Secrets []core.Secret

	// Images maps a language to the image for code without a sandbox: "python", "javascript", "bash".
	Images map[string]string

	// SoftDeadline bounds the time until a call returns its result so far; 0 means 45 s.
	SoftDeadline time.Duration
	// Budget bounds the characters of output in a reply; 0 means 8000.
	Budget int

	// Policy restricts launches.
	Policy service.LaunchPolicy
	// NamePrefix begins the names of sandboxes launched here; "" is "mcp-".
	NamePrefix string
	// MaxSandboxes bounds the live sandboxes of one owner that were launched here; 0 is no bound.
	MaxSandboxes int
	// OnDisconnect is the treatment of a session's sandboxes after its client disconnects.
	OnDisconnect OnDisconnect
	// Lease is how long sandboxes outlive their client under Lease; 0 is 15 min.
	Lease time.Duration

	// AllowPaths are the host directories that push and pull may access, besides the client's roots.
	AllowPaths []string
	// UseRoots lets a client's roots widen AllowPaths; over HTTP roots name the client's machine, not this one.
	UseRoots bool
	// NoElicit skips questions to the user, as if the user agreed.
	NoElicit bool

	// Transport carries the protocol; "" is Stdio. HTTP configures the other two.
	Transport Transport
	HTTP      HTTP
}

// Selection is what one client wants of the tools that a server serves. The zero value is all of them.
type Selection struct {
	// Toolsets and Tools are names; if both are empty, every tool is wanted.
	Toolsets, Tools []string
	// Exclude are names of tools.
	Exclude              []string
	ReadOnly, NoPictures bool
}

// Transport is the connection between clients and a server.
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

// HTTP configures a server over HTTP. It always serves both HTTP transports.
type HTTP struct {
	// Host and Port are the listening address; port 0 selects a free one.
	Host string
	Port int
	// TLSCert and TLSKey are PEM files; both or neither.
	TLSCert, TLSKey string
	// PublicURL is the URL for clients and links; "" means the listening address.
	PublicURL string
	// AllowHosts and AllowOrigins are accepted in the headers Host and Origin, besides the server's own.
	AllowHosts, AllowOrigins []string

	// KeysFile has the API keys.
	KeysFile string
	// LocalKeyFile has the key of the user's own programs. It is created when missing, and valid on loopback only.
	LocalKeyFile string
	// NoAuth serves every user and program of this machine without a key. It is allowed only on loopback, without API keys
	// and without an issuer.
	NoAuth bool
	// Issuer and Audience make tokens of an OAuth issuer valid, if it signed them for this audience.
	Issuer, Audience string

	// MaxBody bounds a request's body; 0 is 64 MiB.
	MaxBody int64
	// Rate bounds the requests per second of one owner; 0 means 50, negative means no bound.
	Rate float64
	// HeaderTimeout bounds the time for a request's headers; 0 means 10 s.
	HeaderTimeout time.Duration
	// MaxConnections bounds the connections; 0 is 1024.
	MaxConnections int
}

// OnDisconnect is the treatment of a session's sandboxes after its client disconnects.
type OnDisconnect string

const (
	// Lease lets them live for one lease, so that a client that reconnects finds them.
	Lease OnDisconnect = "lease"
	// Terminate ends them at once.
	Terminate OnDisconnect = "terminate"
	// Detach leaves them running until their own timeout.
	Detach OnDisconnect = "detach"
)

// The systems whose tool names and parameters can be served.
const (
	MCP4Modal           = "mcp4modal"
	DockerSandboxServer = "docker-sandbox-server"
	MCPSandbox          = "mcp-sandbox"
	CodeSandboxMCP      = "code-sandbox-mcp"
)

// Compats lists these systems.
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
	// Default is the toolset without a selection; All has every toolset.
	Default = "default"
	All     = "all"
)

// Toolsets names the toolsets.
func Toolsets() []string {
	return []string{Default, All, Sandboxes, Exec, Files, Transfer, Packages, Lifecycle, State, Network, Stores, Links}
}
