// Package wire is the language between a container's first process, "sb-guest box", and
// the docker provider.
//
// The box's program comes with a read-only volume that many containers share. Just before it starts the container, the provider
// writes a Setup in a frame to the box's stdin; the box keeps its Config in the sandbox's Dir, and the key nowhere. It
// writes a State as a line of JSON to its stdout whenever that changes; the engine keeps that as the container's log, so
// the last line says how the sandbox stands even when it is gone. A sandbox keeps the program that it was launched with, so
// what is said here may only grow.
//
// A call is one exec by the engine of "sb-guest call", which hands its descriptors 0 to 2 to the
// box and waits until the box lets go of them. The caller sends a signed Request in
// a frame on 0; see Verb for what follows. A caller that has its Reply, or sb-guest's report of a failure, leaves at once: the box
// holds such a call for a moment longer, and takes what still comes, for Podman would lose the answer with it. Who may take descriptors from the box, as only somebody outside can, goes without
// the exec: a stream socket that is sent into DoorFD is the same as a connection of "sb-guest call".
package wire

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Dir is where a sandbox has what is sb's, in the root of its container: a volume, so that images made from the container do not
// have it. No image knows its name, so none can bring a link in its place or a volume that leads there, and have a program
// of its own run as the box.
type Dir string

// NewDir makes the name of one sandbox's.
func NewDir() Dir { return Dir("/.sb-" + strings.ToLower(rand.Text())) }

// DirOf returns the Dir that a box's program is in.
func DirOf(program string) Dir { return Dir(path.Dir(path.Dir(program))) }

// Bin is where the volume of the program is mounted.
func (d Dir) Bin() string { return string(d) + "/bin" }

// Program is the box's program.
func (d Dir) Program() string { return d.Bin() + "/" + ProgramName }

// Config is the file of the box's Config.
func (d Dir) Config() string { return string(d) + "/box.json" }

// Journal is the directory of the journal.
func (d Dir) Journal() string { return string(d) + "/journal" }

const (
	// ProgramName is the program's name in its volume.
	ProgramName = "sb-guest"
	// Socket is the box's abstract address; it is the container's own, as its network is.
	Socket = "@sb-box"
	// DoorFD is the box's descriptor that leads back to the box.
	DoorFD = 100
	// CallUser runs "sb-guest call": it owns nothing and holds no capability.
	CallUser = "65533:65533"
)

// Modes are sb-guest's first arguments.
const (
	ModeBox  = "box"
	ModeCall = "call"
)

// Setup is the configuration that a box receives at its start.
type Setup struct {
	Config Config `json:"config"`
	// Key signs the requests of those who may call the box.
	Key []byte `json:"key"`
}

// Config is what a box works with.
type Config struct {
	ID string `json:"id"`
	// Spec is the launch spec; its secrets have no values.
	Spec    core.Spec         `json:"spec"`
	Secrets map[string]string `json:"secrets,omitempty"`
	Actor   string            `json:"actor,omitempty"`
	// User runs the commands without a user of their own: the spec's user, else the image's.
	User string `json:"user,omitempty"`
	// Workdir is the spec's, else the image's.
	Workdir string `json:"workdir,omitempty"`
	// Expires is when the lifetime ends; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	// Settled says that Expires was set for good: no lease changes it.
	Settled bool `json:"settled,omitempty"`
	// Fence restricts where the sandbox's packets go.
	Fence Fence `json:"fence,omitzero"`
	// ExecLogLimit and EntryLogLimit bound what is kept of a command's output, in bytes.
	ExecLogLimit  int64 `json:"exec_log_limit"`
	EntryLogLimit int64 `json:"entry_log_limit"`
}

// Fence is a network policy that the box applies before it starts anything else.
type Fence struct {
	// On makes link-local addresses and the container's neighbors unreachable.
	On bool `json:"on,omitempty"`
	// Only, when set, lists the CIDRs that stay reachable.
	Only []string `json:"only,omitempty"`
	// Never lists CIDRs that are unreachable, whatever Only says.
	Never []string `json:"never,omitempty"`
	// Closed says that Only holds even when it is empty.
	Closed bool `json:"closed,omitempty"`
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
	// Settled says that Expires was set for good: no lease changes it.
	Settled bool `json:"settled,omitempty"`
	// Kind is the error's, when State is failed before it was running.
	Kind string `json:"kind,omitempty"`
}

// Frame types. From the caller to the box:
const (
	FrameSetup    = 'u' // a Setup, on the box's own stdin
	FrameRequest  = 'q' // a signed Request
	FrameStdin    = 'i' // bytes of stdin
	FrameStdinEnd = 'e'
	FrameControl  = 'c' // a Control
)

// From the box to the caller:
const (
	FrameStarted = 's' // a Started
	FrameStdout  = 'o' // bytes
	FrameStderr  = 'x' // bytes
	FrameRecord  = 'r' // a log record, see AppendRecord
	FrameTaken   = 'a' // so many bytes of stdin went to the command, see StdinWindow
	FrameExec    = 'x' // a core.Exec
	FrameTold    = 't' // a Reply to a Control with a signal or a size, in their order
	FrameReply   = 'd' // a Reply, the last frame but after VerbFile
	FrameHeard   = 'h' // a further request on the same call has come
)

// StdinWindow is how many bytes of stdin a caller may send ahead of FrameTaken, so that a
// command that does not read never holds up a Control.
const StdinWindow = 1 << 20

// MaxFrame bounds a frame's payload in bytes. A request with all the arguments and variables that core lets through is below it, however many
// of their bytes JSON escapes.
const MaxFrame = 32 << 20

const frameHeader = 5

// ErrFrame is a frame that is too long or of an unknown type.
var ErrFrame = errors.New("what came is no frame")

// AppendFrame appends the frame to b.
func AppendFrame(b []byte, kind byte, payload []byte) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // callers stay below MaxFrame
	return append(b, payload...)
}

// ReadFrame reads one frame, and never beyond it. The payload is in buf when it fits. io.EOF is a
// clean end.
func ReadFrame(r io.Reader, buf []byte) (kind byte, payload []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint32(header[1:]))
	if length > MaxFrame || header[0] < 'a' || header[0] > 'z' {
		return 0, nil, ErrFrame
	}
	if length > cap(buf) {
		buf = make([]byte, length)
	}
	payload = buf[:length]
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return header[0], payload, nil
}

// AppendTaken appends the payload of FrameTaken.
func AppendTaken(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // at most StdinWindow
}

// ParseTaken reads what AppendTaken made.
func ParseTaken(payload []byte) (int, error) {
	if len(payload) != 4 {
		return 0, ErrFrame
	}
	return int(binary.BigEndian.Uint32(payload)), nil
}

const recordHeader = 9

// AppendRecord appends a log record's payload to b.
func AppendRecord(b []byte, record core.LogRecord) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(record.Time.UnixNano()))
	stream := byte(FrameStdout)
	if record.Stream == core.Stderr {
		stream = FrameStderr
	}
	return append(append(b, stream), record.Data...)
}

// ParseRecord reads what AppendRecord made. The data is payload's own.
func ParseRecord(payload []byte) (core.LogRecord, error) {
	if len(payload) < recordHeader {
		return core.LogRecord{}, ErrFrame
	}
	record := core.LogRecord{
		Time:   time.Unix(0, int64(binary.BigEndian.Uint64(payload))), //nolint:gosec // as it was written
		Stream: core.Stdout, Data: payload[recordHeader:],
	}
	switch payload[recordHeader-1] {
	case FrameStdout:
	case FrameStderr:
		record.Stream = core.Stderr
	default:
		return core.LogRecord{}, ErrFrame
	}
	return record, nil
}
