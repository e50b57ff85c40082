package wire

import (
	"net/netip"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// Verb is the operation of a Request.
type Verb string

// The verbs of every supervisor.
const (
	// VerbExec starts a command; VerbAttach follows a running one. The answers are Started, the command's output, and last
	// a Reply with Exit. The box accepts Controls until then.
	VerbExec   Verb = "exec"
	VerbAttach Verb = "attach"
	// VerbFiles runs sb-guest on the caller's descriptors 0 to 2, as package guest describes.
	VerbFiles Verb = "files"
	// VerbExpire sets when the lifetime ends.
	VerbExpire Verb = "expire"
	// VerbStop ends all commands and the sandbox, which can start again.
	VerbStop   Verb = "stop"
	VerbPause  Verb = "pause"
	VerbResume Verb = "resume"
	VerbStats  Verb = "stats"
	// VerbDial connects to Port. In a container, descriptors 0 and 1 carry the connection's bytes after the Reply. On this
	// machine, the unix socket that comes with the request does.
	VerbDial Verb = "dial"
)

// The verbs of containers: the caller cannot reach their journal and descriptors. After a VerbFile another VerbFile or
// VerbFiles may follow on the same call. A FrameHeard comes before its answer.
const (
	VerbFile  Verb = "file"  // Reply.Answer and Reply.Report of a file operation without a body and with a short answer
	VerbExecs Verb = "execs" // a FrameExec for each command
	VerbLogs  Verb = "logs"  // records
)

// The verbs of sandboxes on this machine.
const (
	VerbSecrets Verb = "secrets"
	VerbEnd     Verb = "end" // end without saving
	// VerbCheckpoint writes the sandbox with its memory to the directory Dir. The sandbox continues.
	VerbCheckpoint Verb = "checkpoint"
	// VerbSnapshot writes the writable layer to the directory Dir.
	VerbSnapshot Verb = "snapshot"
	// VerbDiff writes core.Changes as JSON to the descriptor that comes with the request.
	VerbDiff Verb = "diff"
	// VerbLayer writes the writable layer to the descriptor that comes with the request: a tar archive in which the marks
	// of overlayfs stand for removed files.
	VerbLayer   Verb = "layer"
	VerbDenials Verb = "denials"
	VerbNetwork Verb = "network" // replace the network policy
)

// Request is one call. Fields that a verb does not use are zero.
type Request struct {
	Verb Verb `json:"verb"`
	// Version is the caller's; Sign sets it. On this machine the handshake of the socket carries it.
	Version int `json:"version,omitempty"`

	// Command belongs to VerbExec; of an attached command it has the streams. User also belongs to VerbFiles and VerbFile
	// of a container.
	Command

	// Exec names a command, for VerbAttach and VerbLogs; the others belong to VerbLogs, Replay to VerbAttach.
	Exec   string    `json:"exec,omitempty"`
	Replay bool      `json:"replay,omitempty"`
	Follow bool      `json:"follow,omitempty"`
	Tail   int       `json:"tail,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`

	// File is the command line of sb-guest, for VerbFiles and VerbFile.
	File []string `json:"file,omitempty"`

	// Port is a TCP port inside, for VerbDial.
	Port int `json:"port,omitempty"`

	// Expires belongs to VerbExpire; zero is never. Lease renews a lease; it has no effect after an expiry without Lease.
	// Calls to a container can overtake each other. Issued orders them, and the box refuses the older one.
	Expires time.Time `json:"expires,omitzero"`
	Lease   bool      `json:"lease,omitempty"`
	Issued  time.Time `json:"issued,omitzero"`

	// Grace belongs to VerbStop.
	Grace time.Duration `json:"grace,omitempty"`
	// Network belongs to VerbNetwork.
	Network *core.Network `json:"network,omitempty"`
	// Dir belongs to VerbCheckpoint and VerbSnapshot: the name of an empty directory in the sandbox's. An open directory
	// would not do: it leads out of the supervisor's root.
	Dir string `json:"dir,omitempty"`
}

// Control is a message to a command that runs.
type Control struct {
	Signal int               `json:"signal,omitempty"`
	Size   core.TerminalSize `json:"size,omitzero"`
	// Broken names a stream whose reader is gone. The command's next write there fails.
	Broken core.Stream `json:"broken,omitempty"`
}

// Started answers VerbExec and VerbAttach.
type Started struct {
	ID string `json:"id"`
}

// Reply is the last answer of a call.
type Reply struct {
	Error *guest.Failure `json:"error,omitempty"`
	// Exit is how the command ended; of VerbFiles it has sb-guest's code.
	Exit *core.Exit `json:"exit,omitempty"`
	// Stats answers VerbStats. A container measures CPU, memory and processes, without its first process.
	Stats *core.Stats `json:"stats,omitempty"`
	// Answer and Report are sb-guest's output on its descriptors 1 and 2, for VerbFile.
	Answer []byte `json:"answer,omitempty"`
	Report []byte `json:"report,omitempty"`
	// Secrets belong to VerbSecrets, Kept to VerbCheckpoint, Denials to VerbDenials.
	Secrets []Secret      `json:"secrets,omitempty"`
	Kept    *Kept         `json:"kept,omitempty"`
	Denials []core.Denial `json:"denials,omitempty"`
}

// Secret is a core.Secret with its value.
type Secret struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Kept is the state that a sandbox needs beside its memory to continue from a checkpoint.
type Kept struct {
	// Engine is the version of the kernel that made it: no other can read it.
	Engine string `json:"engine"`
	// Secrets are the source's. They are for a fork, and never written to disk.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Given includes the secrets of its commands, whose values the journal omits.
	Given []Secret `json:"given,omitempty"`
	// Names are the domains for which the sandbox has stand-in addresses.
	Names map[string]netip.Addr `json:"names,omitempty"`
	// Commands continue from the checkpoint. Last is the newest command's number.
	Commands []KeptCommand `json:"commands,omitempty"`
	Last     int           `json:"last,omitempty"`
}

// KeptCommand is a command that continues in a copy.
type KeptCommand struct {
	core.Exec
	// Left is the rest of its timeout; 0 means no timeout.
	Left time.Duration `json:"left,omitempty"`
}
