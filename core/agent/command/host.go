//go:build linux

package command

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// Host is one sandbox, as its supervisor runs it. It is safe for concurrent use.
type Host interface {
	// Acquire keeps the sandbox awake until Release. Its error means that the sandbox has ended or is paused.
	Acquire() error
	Release()
	// Plan finds the user, the environment and the directory of a command.
	Plan(request *wire.Command) (Start, error)
	// Start starts a process. The error wraps program.ErrNotFound or program.ErrNotExecutable if the program is the cause;
	// other errors are a *core.Error.
	Start(start Start) (Process, error)
	// Note records a failure that no caller can get.
	Note(err error)
}

// Start describes a process to start.
type Start struct {
	// ID is the command's id in the journal.
	ID   string
	Argv []string
	Env  []string
	Dir  string
	User User
	// Terminal means that Argv runs sb-guest, which runs the program on a new terminal.
	Terminal bool
	// Kept means that the command should continue in a copy of the sandbox, if the host can make copies.
	Kept bool
	// Files are the process's descriptors. The first one is nil for a Kept command, which reads no input.
	Files []*os.File
}

// Process is a process in the sandbox. It is safe for concurrent use.
type Process interface {
	// Wait blocks until the process has ended, alone or with the sandbox. It is called once.
	Wait() core.Exit
	// Signal sends a signal to the process's group. The error wraps unix.ESRCH if the process has ended.
	Signal(number syscall.Signal) error
	// Explain adds the reason to an exit that a limit of the sandbox caused.
	Explain(exit *core.Exit)
}

// Client is the caller of a command; nil for a command without one. Commands closes Stdout and Stderr.
type Client struct {
	// Started receives the command's id, before any output; it may be nil.
	Started func(id string)
	// Stdout and Stderr receive the output; nil drops it.
	Stdout, Stderr io.WriteCloser
	// Broken is called at most once for each stream, after its reader closed it. A stream closed on this side, with
	// os.ErrClosed, is not broken.
	Broken func(stream core.Stream)
}

func (c *Client) started(id string) {
	if c != nil && c.Started != nil {
		c.Started(id)
	}
}

// to returns where a stream goes; nil is nowhere.
func (c *Client) to(stream core.Stream) io.WriteCloser {
	switch {
	case c == nil:
		return nil
	case stream == core.Stderr:
		return c.Stderr
	}
	return c.Stdout
}

func (c *Client) reportBroken(stream core.Stream, err error) {
	if c.Broken != nil && !errors.Is(err, os.ErrClosed) {
		c.Broken(stream)
	}
}

func (c *Client) close() {
	for _, stream := range []core.Stream{core.Stdout, core.Stderr} {
		if to := c.to(stream); to != nil {
			_ = to.Close()
		}
	}
}
