package fake

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// client is a connection to a command: a core.Process.
type client struct {
	proc           *process
	stdout, stderr io.Writer
	replay         []core.LogRecord
	// release closes this side's copies of the caller's output files. atEnd closes that of stdin: a pending read would
	// swallow later input.
	release, atEnd func()

	chunks chan chunk
	acks   chan error
	closed chan struct{}
	pumped chan struct{} // closed when all output was written
	once   sync.Once

	// lost is the reason for lost output. Only the pump uses it until pumped is closed.
	lost error

	// abandoned is true if a killed command did not wait for the pump. proc.writing guards it.
	abandoned bool
}

type chunk struct {
	stream core.Stream
	data   []byte
}

// connect attaches the starter of a command and makes the command's stdin.
func (proc *process) connect(spec core.ExecSpec) error {
	if spec.TTY || spec.Stdin != nil && !spec.Detach {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		proc.stdin, proc.feed = r, w
	}
	if spec.Detach {
		return nil
	}
	proc.origin = proc.newClient(core.Streams{Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr}, true)
	return nil
}

// disconnect closes the command's stdin for all writers.
func (proc *process) disconnect() {
	if proc.stdin != nil {
		_ = proc.stdin.Close()
		_ = proc.feed.Close()
	}
}

// newClient connects streams to a command, running or not. origin marks the starter of the command.
func (proc *process) newClient(streams core.Streams, origin bool) *client {
	c := &client{
		proc: proc, chunks: make(chan chunk), acks: make(chan error, 1), closed: make(chan struct{}),
		pumped: make(chan struct{}),
	}
	outputs, release := core.Streams{Stdout: streams.Stdout, Stderr: streams.Stderr}.Own()
	input, atEnd := core.Streams{Stdin: streams.Stdin}.Own()
	c.stdout, c.stderr, c.release, c.atEnd = outputs.Stdout, outputs.Stderr, release, atEnd
	proc.mu.Lock()
	if streams.Replay {
		c.replay = proc.journal.all()
	}
	alive := proc.exit == nil
	if alive {
		proc.clients = append(proc.clients, c)
	}
	proc.mu.Unlock()
	go c.pump()
	if input.Stdin != nil && alive && proc.feed != nil {
		go c.feed(input.Stdin, origin)
	} else if !alive {
		c.atEnd()
	}
	return c
}

// pump writes to the caller's streams, so that a slow caller blocks only this goroutine.
func (c *client) pump() {
	defer close(c.pumped)
	defer c.release()
	for _, record := range c.replay {
		if c.write(record.Stream, record.Data) != nil {
			break
		}
	}
	for {
		select {
		case <-c.closed:
			return
		case <-c.proc.done:
			return
		case next := <-c.chunks:
			c.acks <- c.write(next.stream, next.data)
		}
	}
}

func (c *client) write(stream core.Stream, data []byte) error {
	w := c.stdout
	if stream == core.Stderr {
		w = c.stderr
	}
	if w == nil {
		return nil
	}
	_, err := w.Write(data)
	c.lost = errors.Join(c.lost, core.LostOutput(stream, err))
	return err
}

// deliver passes output to the pump and waits until it is written, the client has left or the command is killed. The
// caller holds proc.writing.
func (c *client) deliver(stream core.Stream, data []byte) error {
	if c.abandoned {
		return nil
	}
	select {
	case c.chunks <- chunk{stream, data}:
	case <-c.closed:
		return nil
	case <-c.proc.ctx.Done():
		return c.proc.ctx.Err()
	}
	select {
	case err := <-c.acks:
		return err
	case <-c.closed:
		return nil
	case <-c.proc.ctx.Done():
		c.abandoned = true
		return c.proc.ctx.Err()
	}
}

// feed copies the caller's stdin to the command. At its end, it closes the command's stdin only if the caller started
// the command.
func (c *client) feed(stdin io.Reader, origin bool) {
	var to io.Writer = c.proc.feed
	if c.proc.spec.TTY {
		to = &discipline{proc: c.proc, to: c.proc.feed}
	}
	_, _ = io.Copy(to, stdin)
	if origin {
		_ = c.proc.feed.Close()
	}
}

// ID implements core.Process.
func (c *client) ID() string { return c.proc.id }

// Wait implements core.Process.
func (c *client) Wait(ctx context.Context) (core.Exit, error) {
	for _, over := range []<-chan struct{}{c.proc.done, c.pumped} {
		select {
		case <-over:
			continue
		default:
		}
		select {
		case <-over:
		case <-ctx.Done():
			return core.Exit{}, ctx.Err()
		}
	}
	return c.proc.result(), c.lost
}

// Signal implements core.Process.
func (c *client) Signal(ctx context.Context, number int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.proc.signal(number)
}

// Resize implements core.Process.
func (c *client) Resize(ctx context.Context, size core.TerminalSize) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.proc.resize(size)
}

// Close implements core.Process.
func (c *client) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.atEnd()
		c.release() // a pending write ends
	})
	return nil
}
