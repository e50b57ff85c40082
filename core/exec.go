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
	Workdir string // "" is the sandbox's
	User    string // "" is the sandbox's

	// TTY gives the command a terminal of Size; stderr then goes to Stdout.
	TTY  bool
	Size TerminalSize

	// Timeout ends the command with SIGTERM, then SIGKILL; 0 means none.
	Timeout time.Duration
	// Detach leaves the command running without streams; its output is in the journal only.
	Detach bool

	// Stdin is read until its end, which is passed on; nil is an empty stdin. Stdout and
	// Stderr nil discard (the journal keeps the output all the same). An *os.File
	// that is a pipe or a terminal is handed to the sandbox's supervisor where the
	// provider can do that, so that no byte passes through this process. A reader
	// that blocks is left alone when the command ends: Wait does not wait for it.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// TerminalSize is measured in character cells.
type TerminalSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Process is a command that was started, or one that was attached to. Its methods
// may be called at the same time from several goroutines.
type Process interface {
	// ID names the command in the sandbox's journal.
	ID() string
	// Wait blocks until the command ended and all of its output was written to the
	// streams. It may be called again and answers the same. When ctx ends first it returns ctx's
	// error and the command goes on. When a stream takes no more output the command's next write there fails
	// with EPIPE or SIGPIPE, and Wait returns LostOutput: no error if the reader only went away.
	Wait(ctx context.Context) (Exit, error)
	// Signal sends a signal by number to the command's process group.
	Signal(ctx context.Context, signal int) error
	// Resize changes the terminal's size; it is KindConflict without a TTY.
	Resize(ctx context.Context, size TerminalSize) error
	// Close releases this side's streams and connections. A command that still runs goes on.
	Close() error
}

// Exit is how a command ended.
type Exit struct {
	// Code is 0 to 255 as a shell reports it: 128+n for signal n, 127 for a program
	// that is not there, 126 for one that cannot be executed.
	Code int `json:"exit_code"`
	// Signal is the signal that killed it, or 0.
	Signal int `json:"signal,omitempty"`
	// TimedOut says that ExecSpec.Timeout ended it.
	TimedOut bool `json:"timed_out,omitempty"`
	// Reason is ReasonMemory and the like when a limit of the sandbox ended it.
	Reason   Reason        `json:"reason,omitempty"`
	Message  string        `json:"message,omitempty"`
	Duration time.Duration `json:"duration_ns"`
}

// NotStarted reports whether there was no command: its program is not there, or cannot be executed. Message says why.
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
	// Actor is who started it, as in Owner.Actor.
	Actor   string    `json:"actor,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Exit is nil while the command runs, and for ever when the sandbox was lost under it.
	Exit *Exit `json:"exit,omitempty"`
	// StdoutBytes and StderrBytes count what the command wrote, kept or not. While it runs they may be 0 all the same.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// Truncated says that the journal's cap dropped the oldest output.
	Truncated bool `json:"truncated,omitempty"`
}

// Running says whether the command has not ended yet, as far as the journal knows.
func (e Exec) Running() bool { return e.Exit == nil && e.Ended.IsZero() }

// Streams are what Attach connects to a running command; see ExecSpec.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Replay writes the journalled output first.
	Replay bool
}
