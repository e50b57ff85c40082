//go:build linux

// Package wire is the protocol between a client and a sandbox's supervisor: gRPC
// with messages in JSON over a unix socket. A connection begins with a handshake that
// checks the user and the version and carries the client's file descriptors; each
// call that passes descriptors has a connection of its own. Bulk data never
// travels in messages: it flows through the descriptors.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
)

// Version of the protocol. Both sides must have the same.
const Version = 1

// KernelMemory is what a sandbox's own kernel, file server and supervisor may take beside what the sandbox was given, in bytes.
const KernelMemory = 256 << 20

// Error is a core.Error on the wire.
type Error struct {
	Kind    core.Kind `json:"-"`
	Name    string    `json:"kind"`
	Subject string    `json:"subject,omitempty"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
}

// NewError converts err; nil stays nil.
func NewError(err error) *Error {
	if err == nil {
		return nil
	}
	e := &Error{Name: core.KindOf(err).String(), Message: err.Error(), Hint: core.HintOf(err)}
	if ce, ok := errors.AsType[*core.Error](err); ok {
		e.Subject = ce.Subject
		if ce.Err != nil && err == error(ce) {
			e.Message = ce.Err.Error() // the subject comes beside it
		}
	}
	return e
}

// Err converts back. op is the client's.
func (e *Error) Err(op string) error {
	if e == nil {
		return nil
	}
	return &core.Error{Kind: core.ParseKind(e.Name), Op: op, Subject: e.Subject, Hint: e.Hint, Err: errors.New(e.Message)}
}

// Secret is a core.Secret on the wire, with its value.
type Secret struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Command is a command that is to start.
type Command = wire.Command

// ExecRequest is one message of a client in an Exec or Attach call. The first has
// Command or Attach, the others one of the rest.
type ExecRequest struct {
	Command *Command `json:"command,omitempty"`
	// Attach names a command; its connection may carry a stdin for it.
	Attach string             `json:"attach,omitempty"`
	Signal int                `json:"signal,omitempty"`
	Size   *core.TerminalSize `json:"size,omitempty"`
	// CloseOutput answers ExecReply.Broken: nobody reads this stream any more.
	CloseOutput core.Stream `json:"close_output,omitempty"`
}

// ExecReply is one message of the supervisor; each has one field set.
type ExecReply struct {
	Started string `json:"started,omitempty"`
	// Broken is a stream that the client's reader has closed.
	Broken core.Stream `json:"broken,omitempty"`
	Exit   *core.Exit  `json:"exit,omitempty"`
	Error  *Error      `json:"error,omitempty"`
}

// Control asks for one change or measurement.
type Control struct {
	Verb Verb `json:"verb"`
	// Timeout belongs to VerbTimeout and VerbLease, Grace to VerbStop.
	Timeout time.Duration `json:"timeout,omitempty"`
	Grace   time.Duration `json:"grace,omitempty"`
	// Argv belongs to VerbFiles: the command line of sb-guest, whose descriptors 0, 1 and 2 come with the connection.
	Argv []string `json:"argv,omitempty"`
	// Network belongs to VerbNetwork.
	Network *core.Network `json:"network,omitempty"`
	// Port belongs to VerbDial.
	Port int `json:"port,omitempty"`
}

// Verb names what Control asks for.
type Verb string

// The verbs.
const (
	VerbStats   Verb = "stats"
	VerbPause   Verb = "pause"
	VerbResume  Verb = "resume"
	VerbTimeout Verb = "timeout"
	VerbLease   Verb = "lease"
	VerbSecrets Verb = "secrets"
	VerbStop    Verb = "stop" // save the filesystem and end
	VerbEnd     Verb = "end"  // end without saving
	VerbFiles   Verb = "files"
	// VerbCheckpoint writes the sandbox, memory included, to the directory that comes with the connection, an empty one.
	// The sandbox continues.
	VerbCheckpoint Verb = "checkpoint"
	VerbDenials    Verb = "denials"
	// VerbSnapshot writes the writable layer to such a directory; VerbDiff writes core.Changes as JSON to the
	// descriptor that comes with the connection.
	VerbSnapshot Verb = "snapshot"
	VerbDiff     Verb = "diff"
	VerbNetwork  Verb = "network" // replace the network policy
	// VerbDial connects the unix socket that comes with the connection to a port inside.
	VerbDial Verb = "dial"
)

// ControlReply answers a Control.
type ControlReply struct {
	Error *Error      `json:"error,omitempty"`
	Stats *core.Stats `json:"stats,omitempty"`
	// ExitCode belongs to VerbFiles.
	ExitCode int `json:"exit_code,omitempty"`
	// Secrets belongs to VerbSecrets.
	Secrets []Secret `json:"secrets,omitempty"`
	// Kept belongs to VerbCheckpoint.
	Kept *Kept `json:"kept,omitempty"`
	// Denials belongs to VerbDenials.
	Denials []core.Denial `json:"denials,omitempty"`
}

// Kept is what a sandbox that goes on from a checkpoint must know beside the memory.
type Kept struct {
	// Engine is the version of gVisor that made it: no other can read it.
	Engine string `json:"engine"`
	// Secrets are the source's. They are for a fork, and never written.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Given are all that its commands were given, too: what the journal leaves out.
	Given []Secret `json:"given,omitempty"`
	// Names are the domains that the sandbox has stand-in addresses of.
	Names map[string]netip.Addr `json:"names,omitempty"`
	// Commands are those that go on, and Last is the newest command's number.
	Commands []KeptCommand `json:"commands,omitempty"`
	Last     int           `json:"last,omitempty"`
}

// KeptCommand is a command that goes on in a copy.
type KeptCommand struct {
	core.Exec
	// Left is what it has left of its time; 0 is no limit.
	Left time.Duration `json:"left,omitempty"`
}

// Launch is what a client tells a new supervisor through its standard input, and with Image a Kept.
type Launch struct {
	// Version is the client's; a supervisor of another one refuses.
	Version    int               `json:"version"`
	ID         string            `json:"id"`
	Spec       core.Spec         `json:"spec"`
	Lease      core.Lease        `json:"lease"`
	Secrets    map[string]string `json:"secrets,omitempty"`
	Dir        string            `json:"dir"`
	RuntimeDir string            `json:"runtime_dir"`
	OverlayDir string            `json:"overlay_dir"`
	Guest      string            `json:"guest"`
	// Restore is the generation of the filesystem to begin with; 0 is a fresh one.
	Restore int `json:"restore,omitempty"`
	// Endless says that the sandbox has no lifetime, whatever its spec says.
	Endless bool `json:"endless,omitempty"`
	// Note goes into the sandbox's state: what of its saved files is damaged.
	Note string `json:"note,omitempty"`
	// Files is a directory with a filesystem to begin with, of VerbSnapshot; "" is a fresh one, or Restore's.
	Files string `json:"files,omitempty"`
	// Image is a directory that VerbCheckpoint wrote, or will have written when a Kept follows this request on the
	// supervisor's standard input. "" is a sandbox that begins anew, and nothing follows.
	Image        string        `json:"image,omitempty"`
	SaveInterval time.Duration `json:"save_interval,omitempty"`
	FreezeAfter  time.Duration `json:"freeze_after,omitempty"`
	LogLimit     int64         `json:"log_limit,omitempty"`
	// Group is the control group that the supervisor was started in; nil is none.
	Group *cgroup.Group `json:"group,omitempty"`
}

// LaunchStatus is a line that a new supervisor writes to its standard output; the
// last has Ready or Error.
type LaunchStatus struct {
	Step  string `json:"step,omitempty"`
	Ready bool   `json:"ready,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// Server is what a supervisor implements.
type Server interface {
	// Exec serves one command until it ended or the client left.
	Exec(stream grpc.BidiStreamingServer[ExecRequest, ExecReply], files *Files) error
	// Control serves one request.
	Control(ctx context.Context, request *Control, files *Files) *ControlReply
}

const (
	service       = "sb.Supervisor"
	execMethod    = "/" + service + "/Exec"
	controlMethod = "/" + service + "/Control"
)

// Register makes a gRPC server serve s.
func Register(to *grpc.Server, s Server) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*Server)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "Exec", ServerStreams: true, ClientStreams: true,
			Handler: func(srv any, stream grpc.ServerStream) error {
				typed := &grpc.GenericServerStream[ExecRequest, ExecReply]{ServerStream: stream}
				return srv.(Server).Exec(typed, filesOf(stream.Context())) //nolint:forcetypeassert // gRPC has checked it
			},
		}},
		Methods: []grpc.MethodDesc{{
			MethodName: "Control",
			Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var request Control
				if err := decode(&request); err != nil {
					return nil, err
				}
				return srv.(Server).Control(ctx, &request, filesOf(ctx)), nil //nolint:forcetypeassert // gRPC has checked it
			},
		}},
	}, s)
}

// codec writes messages as JSON.
type codec struct{}

func (codec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (codec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func (codec) Name() string                       { return "json" }
