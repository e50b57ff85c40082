package fake

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/seed-0724f904/sb/core"
)

// client is one who is connected to a command: a core.Process.
type client struct {
	proc           *process
	stdout, stderr io.Writer
	replay         []core.LogRecord
	owned          []io.Closer // copies of the caller's descriptors
	stdin          io.Closer   // likewise

	chunks chan chunk
	acks   chan error
	closed chan struct{}
	pumped chan struct{} // closed when all was written
	once   sync.Once

	// abandoned says that a killed command did not wait for the pump. proc.writing guards it.
	abandoned bool
}

type chunk struct {
	stream core.Stream
	data   []byte
}

// connect attaches the one who starts a command and makes its stdin.
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
	c, err := proc.newClient(core.Streams{Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr}, true)
	if err != nil {
		proc.disconnect()
		return err
	}
	proc.origin = c
	return nil
}

// disconnect closes the command's stdin, whoever writes to it.
func (proc *process) disconnect() {
	if proc.stdin != nil {
		_ = proc.stdin.Close()
		_ = proc.feed.Close()
	}
}

// attach connects streams to a command, running or not.
func (proc *process) attach(streams core.Streams) (core.Process, error) {
	c, err := proc.newClient(streams, false)
	if err != nil {
		return nil, core.Errorf(core.KindExhausted, "fake.attach", "", "no descriptors are left: %w", err)
	}
	return c, nil
}

func (proc *process) newClient(streams core.Streams, origin bool) (*client, error) {
	c := &client{proc: proc, chunks: make(chan chunk), acks: make(chan error, 1), closed: make(chan struct{}), pumped: make(chan struct{})}
	var err error
	if c.stdout, err = c.writer(streams.Stdout); err == nil {
		c.stderr, err = c.writer(streams.Stderr)
	}
	stdin := streams.Stdin
	if f, ok := stdin.(*os.File); ok && err == nil {
		var own *os.File
		if own, err = duplicate(f); err == nil {
			stdin, c.stdin = own, own
		}
	}
	if err != nil {
		c.release()
		return nil, err
	}
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
	if stdin != nil && alive && proc.feed != nil {
		go c.feed(stdin, origin)
	} else if !alive {
		c.atEnd()
	}
	return c, nil
}

// writer makes the caller's file this side's own, since the caller may close theirs.
func (c *client) writer(w io.Writer) (io.Writer, error) {
	f, ok := w.(*os.File)
	if !ok {
		return w, nil
	}
	own, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	c.owned = append(c.owned, own)
	return own, nil
}

func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	copied := -1
	if controlErr := raw.Control(func(fd uintptr) { copied, err = syscall.Dup(int(fd)) }); controlErr != nil {
		return nil, controlErr
	}
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(copied)
	return os.NewFile(uintptr(copied), f.Name()), nil
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
	return err
}

// deliver hands output to the pump and waits until it is written, the client has left
// or the command is killed. proc.writing is held.
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

// feed carries the caller's stdin to the command. The end of it is the end of the
// command's stdin if the caller started the command; one who attaches only stops typing.
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

// atEnd lets go of the caller's stdin: a read that is under way would swallow what comes next.
func (c *client) atEnd() {
	if c.stdin != nil {
		_ = c.stdin.Close()
	}
}

func (c *client) release() {
	for _, closer := range c.owned {
		_ = closer.Close()
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
	return c.proc.result(), nil
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
		c.release() // a write that is under way ends
	})
	return nil
}
