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

// KernelMemory is the memory in bytes for a sandbox's kernel, file server and supervisor. It is added to the sandbox's
// limit.
const KernelMemory = 256 << 20

// Launch is the request that a client sends to the standard input of a new supervisor. With Image, a Kept follows.
type Launch struct {
	// Version is the version of the client. A supervisor of another version refuses the request.
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
	// NPMRegistry is the address of the package registry of npm in commands, unless a variable sets it; "" is npm's own.
	NPMRegistry string `json:"npm_registry,omitempty"`
	// Restore is the generation of the filesystem to start with; 0 is a new filesystem.
	Restore int `json:"restore,omitempty"`
	// Endless means that the sandbox has no lifetime. It overrides the spec.
	Endless bool `json:"endless,omitempty"`
	// Note describes damage of the saved files. It goes into the sandbox's state.
	Note string `json:"note,omitempty"`
	// Files is a directory of VerbSnapshot with the filesystem to start with. "" is a new filesystem, or that of Restore.
	Files string `json:"files,omitempty"`
	// Image is a directory of VerbCheckpoint. It is complete when a Kept follows this request on the supervisor's standard
	// input. "" is a new sandbox, and nothing follows.
	Image string `json:"image,omitempty"`
	// Mounts are the directories of Spec.Volumes, and the caches of a build.
	Mounts       []Mount       `json:"mounts,omitempty"`
	SaveInterval time.Duration `json:"save_interval,omitempty"`
	FreezeAfter  time.Duration `json:"freeze_after,omitempty"`
	LogLimit     int64         `json:"log_limit,omitempty"`
	// Group is the control group that the supervisor was started in; nil is none.
	Group *cgroup.Group `json:"group,omitempty"`
	// Spare makes the supervisor prepare a sandbox and wait for the Launch that claims it; nil starts the sandbox.
	Spare *Spare `json:"spare,omitempty"`
}

// Mount is a directory that the client has checked.
type Mount struct {
	// Source is an absolute path without links.
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// CopyOnWrite is that of core.Volume.
	CopyOnWrite bool `json:"copy_on_write,omitempty"`
	// Device and Inode identify the directory. The supervisor mounts no other one.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Named means that it is a volume with a name, not a directory of the user.
	Named bool `json:"named,omitempty"`
}

// Root is an image in the form for a supervisor. The texts come from the image, unchecked.
type Root struct {
	// Path is the absolute path of the EROFS file.
	Path string `json:"path"`
	// Env has the variables of each command, before those of the spec.
	Env []string `json:"env,omitempty"`
	// User and Workdir are for commands without their own; "" is root and /.
	User    string `json:"user,omitempty"`
	Workdir string `json:"workdir,omitempty"`
	// StopSignal is for a sandbox with an entry command: "SIGQUIT". "" is SIGTERM.
	StopSignal string `json:"stop_signal,omitempty"`
	// Files are mounted in the sandbox.
	Files []RootFile `json:"files,omitempty"`
}

// RootFile is a read-only file of a sandbox from an image. It is only in memory.
type RootFile struct {
	// Path is absolute. Mode has the permission bits.
	Path    string `json:"path"`
	Content []byte `json:"content"`
	Mode    uint32 `json:"mode"`
}

// LaunchStatus is a line that a new supervisor writes to its standard output. The last one has Ready or Error.
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
	// Broken is a stream whose reader at the caller has closed it. The caller confirms that with a Control.
	Broken core.Stream `json:"broken,omitempty"`
	Reply  *wire.Reply `json:"reply,omitempty"`
}

// Server is the interface of a supervisor.
type Server interface {
	// Exec serves one command until the command ends or the client disconnects.
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
