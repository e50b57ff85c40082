package wire

import (
	"crypto/rand"
	"net/netip"
	"path"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// A box is the first process of a container, "sb-guest box". Its program comes with a read-only volume that many
// containers share. Just before it starts the container, the provider writes a Setup in a frame to the box's stdin. The
// box stores its Config in the sandbox's Dir, and the key in no file. It writes each new State as a line of JSON to its
// stdout, which the engine keeps as the container's log. So the last line has the final state of a sandbox that has
// ended.
//
// A call is one exec by the engine of "sb-guest call". That process passes its descriptors 0 to 2 to the box and waits
// until the box closes them. The caller sends a signed Request in a frame on 0; Verb describes what follows. A caller
// that has its Reply, or sb-guest's report of a failure, leaves at once. The box keeps such a call open a moment longer
// and reads the rest of the input, because Podman would otherwise lose the answer. A caller that can take descriptors
// from the box needs no exec; only a process outside can. It sends a stream socket into DoorFD, which is the same as a
// connection of "sb-guest call".

// Dir is the directory of a container that belongs to sb, a volume in its root. Images made from the container do not
// have it. An image cannot predict its name. So it cannot put a link or a volume there to make the box run its program.
type Dir string

// NewDir makes the name of one sandbox's.
func NewDir() Dir { return Dir("/.sb-" + strings.ToLower(rand.Text())) }

// DirOf returns the Dir that a box's program is in.
func DirOf(program string) Dir { return Dir(path.Dir(path.Dir(program))) }

// Bin is where the volume of the program is mounted.
func (d Dir) Bin() string { return string(d) + "/bin" }

// Program is the box's program.
func (d Dir) Program() string { return d.Bin() + "/" + ProgramName }

// Secrets is the file of the box's secrets, as SealSecrets encrypts them.
func (d Dir) Secrets() string { return string(d) + "/secrets" }

// Journal is the directory of the journal.
func (d Dir) Journal() string { return string(d) + "/journal" }

const (
	// ProgramName is the program's name in its volume.
	ProgramName = "sb-guest"
	// Socket is the box's abstract address. Like the network, it belongs to the container.
	Socket = "@sb-box"
	// DoorFD is the box's descriptor that leads back to the box.
	DoorFD = 100
	// CallUser runs "sb-guest call": it owns no files and holds no capability.
	CallUser = "65533:65533"
)

// Modes are sb-guest's first arguments.
const (
	ModeBox  = "box"
	ModeCall = "call"
)

// Setup is the configuration that a box receives at its start.
type Setup struct {
	// Version is the provider's.
	Version int    `json:"version"`
	Config  Config `json:"config"`
	// Key signs the requests of callers that may call the box.
	Key []byte `json:"key"`
}

// Config is the configuration of a box.
type Config struct {
	ID string `json:"id"`
	// Spec is the launch spec; its secrets have no values.
	Spec    core.Spec         `json:"spec"`
	Secrets map[string]string `json:"secrets,omitempty"`
	Actor   string            `json:"actor,omitempty"`
	// User runs commands without a user: the spec's user, else the image's.
	User string `json:"user,omitempty"`
	// Workdir is the spec's, else the image's.
	Workdir string `json:"workdir,omitempty"`
	// StopSignal is the image's: "SIGQUIT". "" is SIGTERM.
	StopSignal string `json:"stop_signal,omitempty"`
	// Expires is when the lifetime ends; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	// Fixed means that a timeout was set: no lease changes Expires.
	Fixed bool `json:"fixed,omitempty"`
	// Fence restricts where the sandbox's packets go.
	Fence Fence `json:"fence,omitzero"`
	// ExecLogLimit and EntryLogLimit bound the kept output of a command, in bytes.
	ExecLogLimit  int64 `json:"exec_log_limit"`
	EntryLogLimit int64 `json:"entry_log_limit"`
}

// Fence is a network policy that the box applies before it starts any process.
type Fence struct {
	// On makes link-local addresses and the container's neighbors unreachable.
	On bool `json:"on,omitempty"`
	// Only, when set, lists the CIDRs that stay reachable.
	Only []string `json:"only,omitempty"`
	// Never lists CIDRs that are unreachable, even if Only has them.
	Never []string `json:"never,omitempty"`
	// Closed means that Only applies even when it is empty.
	Closed bool `json:"closed,omitempty"`
	// Host lists the addresses of the engine's machine. They and the gateways are unreachable, unless Only names the
	// address itself or OpenHost is set.
	Host     []netip.Addr `json:"host,omitempty"`
	OpenHost bool         `json:"open_host,omitempty"`
	// Ports are published. Their clients come from a gateway, so the box has a listener of its own for each: only its
	// answers reach the gateway.
	Ports []Port `json:"ports,omitempty"`
}

// Port is a published port.
type Port struct {
	// Inside is the port of the sandbox's server.
	Inside uint16 `json:"inside"`
	// Outside is the port at which the engine reaches the box. No process in the sandbox can bind it.
	Outside uint16 `json:"outside"`
}

// State is one line of the container's log.
type State struct {
	Time time.Time `json:"time"`
	// State is running, stopped, exited or failed.
	State    core.State  `json:"state"`
	Reason   core.Reason `json:"reason,omitempty"`
	Message  string      `json:"message,omitempty"`
	ExitCode *int        `json:"exit_code,omitempty"`
	Expires  time.Time   `json:"expires,omitzero"`
	// Fixed means that a timeout was set: no lease changes Expires.
	Fixed bool `json:"fixed,omitempty"`
	// Kind and Hint are the error's, when State is failed before it was running.
	Kind string `json:"kind,omitempty"`
	Hint string `json:"hint,omitempty"`
}
