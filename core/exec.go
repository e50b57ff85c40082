package core

import (
	"context"
	"io"
	"time"
)

// ExecSpec is a command to run in a sandbox.
type ExecSpec struct {
	// Command is argv, passed on untouched; Command[0] is looked up in the sandbox's PATH.
	Command []string
	Env     map[string]string
	Secrets []Secret
	Workdir string // "" uses the sandbox's
	User    string // "" uses the sandbox's

	// TTY gives the command a terminal of Size; stderr then goes to Stdout.
	TTY  bool
	Size TerminalSize

	// Timeout ends the command with SIGTERM, then SIGKILL; 0 means no timeout.
	Timeout time.Duration
	// Detach runs the command without streams; only the journal has its output.
	Detach bool

	// Stdin is read to its end, which closes the command's stdin; nil is an empty stdin. A nil Stdout or Stderr discards
	// the output; the journal still keeps it. If the provider supports it, the sandbox's supervisor receives an *os.File
	// that is a pipe or a terminal. Its bytes then do not pass through this process. Wait does not wait for a reader that
	// blocks after the command has ended.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// TerminalSize is in character cells.
type TerminalSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Process is a command that Exec started or that Attach connected to. It is safe for concurrent use.
type Process interface {
	// ID is the command's id in the sandbox's journal.
	ID() string
	// Wait blocks until the command has ended and all of its output is written to the streams. Repeated calls return the
	// same result. If ctx ends first, Wait returns ctx's error and the command keeps running.
	// If a stream accepts no more output, the command's next write to it fails with EPIPE or SIGPIPE. Wait then returns
	// LostOutput, which is nil if the reader only closed its end.
	Wait(ctx context.Context) (Exit, error)
	// Signal sends a signal, by number, to the command's process group.
	Signal(ctx context.Context, signal int) error
	// Resize changes the terminal's size. KindConflict: the command has no terminal.
	Resize(ctx context.Context, size TerminalSize) error
	// Close releases this side's streams and connections. A running command keeps running.
	Close() error
}

// Exit is the result of a command that has ended.
type Exit struct {
	// Code is 0 to 255, as a shell reports it. It is 128+n for signal n, 127 for a program that does not exist, and 126
	// for one that cannot be executed.
	Code int `json:"exit_code"`
	// Signal is the signal that killed the command, or 0.
	Signal int `json:"signal,omitempty"`
	// TimedOut means that ExecSpec.Timeout ended the command.
	TimedOut bool `json:"timed_out,omitempty"`
	// Reason is set when a limit of the sandbox ended the command: ReasonMemory, for example.
	Reason   Reason        `json:"reason,omitempty"`
	Message  string        `json:"message,omitempty"`
	Duration time.Duration `json:"duration_ns"`
}

// NotStarted reports whether the command could not start because its program does not exist or cannot be executed.
// Message has the reason.
func (e Exit) NotStarted() bool {
	return (e.Code == 126 || e.Code == 127) && e.Signal == 0 && e.Reason == "" && e.Message != ""
}

// Exec is a journal entry: one command that was run in a sandbox.
type Exec struct {
	// ID is unique in its sandbox. The provider chooses it ("3", a UUID), so it is opaque; "0" is the entry command.
	ID      string   `json:"id"`
	Sandbox string   `json:"sandbox"`
	Command []string `json:"command"`
	User    string   `json:"user,omitempty"`
	Workdir string   `json:"workdir,omitempty"`
	TTY     bool     `json:"tty,omitempty"`
	Detach  bool     `json:"detach,omitempty"`
	// Actor is the frontend that started it, as in Owner.Actor.
	Actor   string    `json:"actor,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Exit is nil while the command runs. It stays nil if the sandbox was lost during the command.
	Exit *Exit `json:"exit,omitempty"`
	// StdoutBytes and StderrBytes count the command's output, including dropped output. They may be 0 while it runs.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// Truncated means that the journal dropped the oldest output to stay within its size limit.
	Truncated bool `json:"truncated,omitempty"`
}

// Running reports whether the journal has no end for the command yet.
func (e Exec) Running() bool { return e.Exit == nil && e.Ended.IsZero() }

// Damaged reports that the journal's entry cannot be read: only ID is known, and Exit.Message names the file.
func (e Exec) Damaged() bool { return e.Exit != nil && e.Started.IsZero() }

// Streams are the streams that Attach connects to a running command; see ExecSpec.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Replay writes the journaled output first.
	Replay bool
}
