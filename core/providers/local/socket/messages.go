//go:build linux

package socket

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
)

// KernelMemory is what a sandbox's own kernel, file server and supervisor may take beside what the sandbox was given,
// in bytes.
const KernelMemory = 256 << 20

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
	// RootID is the id of the image Root.
	RootID string `json:"root_id,omitempty"`
	// Root is the image that is the sandbox's root directory; nil is this machine's programs.
	Root *Root `json:"root,omitempty"`
	// Restore is the generation of the filesystem to begin with; 0 is a fresh one.
	Restore int `json:"restore,omitempty"`
	// Endless says that the sandbox has no lifetime, whatever its spec says.
	Endless bool `json:"endless,omitempty"`
	// Note goes into the sandbox's state: what of its saved files is damaged.
	Note string `json:"note,omitempty"`
	// Files is a directory with a filesystem to begin with, of VerbSnapshot; "" is a fresh one, or Restore's.
	Files string `json:"files,omitempty"`
	// Image is a directory that VerbCheckpoint wrote, or will have written when a Kept follows this request on the
	// supervisor's standard input. "" is a new sandbox, and nothing follows.
	Image        string        `json:"image,omitempty"`
	SaveInterval time.Duration `json:"save_interval,omitempty"`
	FreezeAfter  time.Duration `json:"freeze_after,omitempty"`
	LogLimit     int64         `json:"log_limit,omitempty"`
	// Group is the control group that the supervisor was started in; nil is none.
	Group *cgroup.Group `json:"group,omitempty"`
}

// Root is an image as a supervisor uses it. The texts are the image's own, and unchecked.
type Root struct {
	// Path is the absolute path of the EROFS file.
	Path string `json:"path"`
	// Env has the variables of each command, before those of the spec.
	Env []string `json:"env,omitempty"`
	// User and Workdir are for commands without their own; "" is root and /.
	User    string `json:"user,omitempty"`
	Workdir string `json:"workdir,omitempty"`
}

// LaunchStatus is a line that a new supervisor writes to its standard output; the
// last has Ready or Error.
type LaunchStatus struct {
	Step  string         `json:"step,omitempty"`
	Ready bool           `json:"ready,omitempty"`
	Error *guest.Failure `json:"error,omitempty"`
}

// Ask is one message of the caller in a call of VerbExec or VerbAttach: first the Request, then Controls.
type Ask struct {
	Request *wire.Request `json:"request,omitempty"`
	Control *wire.Control `json:"control,omitempty"`
}

// Answer is one message of the supervisor; each has one field set.
type Answer struct {
	Started *wire.Started `json:"started,omitempty"`
	// Broken is a stream that the caller's reader has closed. The caller answers with the Control if it still wants that.
	Broken core.Stream `json:"broken,omitempty"`
	Reply  *wire.Reply `json:"reply,omitempty"`
}

// Server is what a supervisor implements.
type Server interface {
	// Exec serves one command until it ended or the client left.
	Exec(stream grpc.BidiStreamingServer[Ask, Answer], files *Files) error
	// Control serves one request.
	Control(ctx context.Context, request *wire.Request, files *Files) *wire.Reply
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
				typed := &grpc.GenericServerStream[Ask, Answer]{ServerStream: stream}
				return srv.(Server).Exec(typed, filesOf(stream.Context())) //nolint:forcetypeassert // gRPC has checked it
			},
		}},
		Methods: []grpc.MethodDesc{{
			MethodName: "Control",
			Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var request wire.Request
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
