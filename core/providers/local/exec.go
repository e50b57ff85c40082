//go:build linux

package local

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// process is a command on a connection to its supervisor.
type process struct {
	provider *Provider
	sandbox  string
	id       string
	client   *socket.Client
	stream   grpc.BidiStreamingClient[socket.Ask, socket.Answer]
	cancel   context.CancelFunc
	copies   copies        // of the command's output to writers that could not be handed over
	done     chan struct{} // closed when exit or err is known and all output is written
	exit     core.Exit
	err      error

	sending sync.Mutex
}

// Exec implements core.Provider.
func (p *Provider) Exec(ctx context.Context, id string, spec core.ExecSpec) (core.Process, error) {
	if !store.ValidID(id) {
		return nil, notFound(id)
	}
	request := &wire.Request{Verb: wire.VerbExec, Command: wire.Command{
		Argv: spec.Command, Env: spec.Env, Secrets: secretValues(spec.Secrets), Workdir: spec.Workdir, User: spec.User,
		TTY: spec.TTY, Size: spec.Size, Timeout: spec.Timeout, Detach: spec.Detach,
	}}
	proc := &process{provider: p, sandbox: id}
	var handed streams
	if !spec.Detach {
		request.Stdin = handed.stdin(spec.Stdin)
		request.Stdout = handed.output(core.Stdout, spec.Stdout, &proc.copies)
		if !spec.TTY {
			request.Stderr = handed.output(core.Stderr, spec.Stderr, &proc.copies)
		}
	}
	if err := proc.open(ctx, request, &handed); err != nil {
		return nil, err
	}
	return proc, nil
}

// open connects, sends the first request and waits for the command's start.
func (c *process) open(ctx context.Context, first *wire.Request, handed *streams) (err error) {
	defer func() {
		handed.close()
		if err != nil {
			_ = c.copies.wait()
		}
	}()
	if handed.err != nil {
		return core.Errorf(core.KindExhausted, "local.exec", "", "no descriptors are left: %w", handed.err)
	}
	if c.client, err = socket.Dial(c.provider.store.Socket(c.sandbox), handed.files...); err != nil {
		return core.Wrap("local.exec", c.sandbox, err)
	}
	// The stream outlives ctx, which bounds the start only.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	c.cancel = cancel
	reply, err := c.begin(streamCtx, first)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return errors.Join(c.provider.whyUnreachable(ctx, c.sandbox, err), c.client.Close())
	}
	if reply.Started == nil {
		cancel()
		_ = c.client.Close() // the command was not started
		if reply.Reply != nil && reply.Reply.Error != nil {
			return reply.Reply.Error.Err("local.exec")
		}
		return core.Errorf(core.KindInternal, "local.exec", "", "the supervisor's answer has no command")
	}
	c.id = reply.Started.ID
	done := make(chan struct{})
	c.done = done
	go c.follow(done)
	return nil
}

func (c *process) begin(ctx context.Context, first *wire.Request) (*socket.Answer, error) {
	stream, err := c.client.Exec(ctx)
	if err != nil {
		return nil, err
	}
	c.stream = stream
	if err := stream.Send(&socket.Ask{Request: first}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream.Recv()
}

// follow reads the supervisor's messages until the command's end. Wait and Close wait for follow.
func (c *process) follow(done chan<- struct{}) {
	defer close(done)
	for {
		reply, err := c.stream.Recv()
		if err != nil {
			c.exit, c.err = c.lost(err)
			return
		}
		switch {
		case reply.Broken != "":
			// This client still runs, so the reader closed the stream, not a crash. The command must notice.
			_ = c.send(&wire.Control{Broken: reply.Broken})
		case reply.Reply != nil && reply.Reply.Exit != nil:
			c.err = c.copies.wait()
			c.exit = *reply.Reply.Exit
			c.sending.Lock()
			_ = c.stream.CloseSend() // so that the supervisor need not wait for Close
			c.sending.Unlock()
			return
		}
	}
}

// lost returns the exit of a command whose supervisor is gone. It is the sandbox's end, if the sandbox has ended.
func (c *process) lost(cause error) (core.Exit, error) {
	sb, err := c.provider.read(c.sandbox)
	switch {
	case errors.Is(err, core.KindNotFound):
		return core.Exit{Code: 137, Signal: 9, Reason: core.ReasonStopped, Message: "it was terminated"}, nil
	case err != nil:
		return core.Exit{}, err
	case running(sb.State):
		return core.Exit{}, core.Errorf(
			core.KindUnavailable, "local.exec", sb.Name, "the connection to the sandbox was lost: %w", cause,
		).
			WithHint("sb attach %s %s connects to the command again", sb.Name, c.id)
	case sb.State == core.StateExited:
		return core.Exit{Code: 137, Signal: 9, Reason: sb.Reason, Message: sb.Message}, nil
	}
	return core.Exit{}, notRunning(sb)
}

func (c *process) send(control *wire.Control) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.stream.Send(&socket.Ask{Control: control})
}

// ID implements core.Process.
func (c *process) ID() string { return c.id }

// Wait implements core.Process.
func (c *process) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-c.done:
		return c.exit, c.err
	case <-ctx.Done():
		return core.Exit{}, core.Wrap("local.wait", c.id, ctx.Err())
	}
}

// Signal implements core.Process.
func (c *process) Signal(_ context.Context, signal int) error {
	return c.ask(&wire.Control{Signal: signal})
}

// Resize implements core.Process.
func (c *process) Resize(_ context.Context, size core.TerminalSize) error {
	return c.ask(&wire.Control{Size: size})
}

func (c *process) ask(control *wire.Control) error {
	select {
	case <-c.done:
		return core.Errorf(core.KindConflict, "local.exec", c.id, "the command has ended")
	default:
	}
	return core.Wrap("local.exec", c.id, c.send(control))
}

// Close implements core.Process.
func (c *process) Close() error {
	c.cancel()
	<-c.done
	return c.client.Close()
}

// Execs implements core.Journaler.
func (p *Provider) Execs(ctx context.Context, id string) ([]core.Exec, error) {
	if _, err := p.Get(ctx, id); err != nil {
		return nil, err
	}
	execs, err := p.journal(id).All()
	if err != nil {
		return nil, stateError("ps", err)
	}
	if !p.store.Locked(id) {
		for i := range execs {
			if execs[i].Running() {
				p.concludeLost(id, &execs[i])
			}
		}
	}
	return execs, nil
}

// concludeLost adds the exit of a command without one in the journal, because its supervisor was killed.
func (p *Provider) concludeLost(id string, exec *core.Exec) {
	sb, err := p.read(id)
	if err != nil {
		return
	}
	exec.Exit = &core.Exit{Code: 137, Signal: 9, Reason: sb.Reason, Message: "the sandbox was lost while it ran"}
}

func (p *Provider) journal(id string) journal.Entries {
	return journal.Entries{Dir: p.store.Dir(id) + "/" + store.JournalDir}
}

// Attach implements core.Attacher. Output comes from the journal, which all attached clients read. Input and signals go
// to the supervisor.
func (p *Provider) Attach(ctx context.Context, id, exec string, attached core.Streams) (core.Process, error) {
	execs, err := p.Execs(ctx, id)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(execs, func(e core.Exec) bool { return e.ID == exec })
	if at < 0 {
		return nil, core.Errorf(core.KindNotFound, "local.attach", exec, "the sandbox has no command %q", exec)
	}
	proc := &process{provider: p, sandbox: id, id: exec}
	if execs[at].Exit == nil {
		var handed streams
		request := &wire.Request{Verb: wire.VerbAttach, Exec: exec}
		if attached.Stdin != nil {
			request.Stdin = handed.stdin(attached.Stdin)
		}
		err := proc.open(ctx, request, &handed)
		switch {
		case err == nil:
			proc.replay(attached)
			return proc, nil
		case !errors.Is(err, core.KindNotFound) && !errors.Is(err, core.KindConflict):
			return nil, err
		}
		// It ended in between.
		if entry, err := p.journal(id).Read(exec); err == nil {
			execs[at] = entry
		}
	}
	ended := &finished{exec: execs[at]}
	if attached.Replay {
		ended.err = p.copyJournal(ctx, id, exec, attached, core.LogOptions{Tail: -1}, func() bool { return true })
	}
	return ended, nil
}

// replay copies the command's output from the journal until its end.
func (c *process) replay(attached core.Streams) {
	if attached.Stdout == nil && attached.Stderr == nil {
		return
	}
	opts := core.LogOptions{Follow: true, Tail: 0}
	if attached.Replay {
		opts.Tail = -1
	}
	supervised := c.done
	all := make(chan struct{})
	c.done = all
	ctx, cancel := context.WithCancel(context.Background())
	cancelStream := c.cancel
	c.cancel = func() { cancel(); cancelStream() }
	go func() {
		defer close(all)
		err := c.provider.copyJournal(ctx, c.sandbox, c.id, attached, opts, func() bool {
			select {
			case <-supervised:
				return true
			default:
				return false
			}
		})
		<-supervised
		if c.err == nil && ctx.Err() == nil {
			c.err = err
		}
	}()
}

// copyJournal writes a command's journalled output to the streams.
func (p *Provider) copyJournal(
	ctx context.Context, id, exec string, to core.Streams, opts core.LogOptions, ended func() bool,
) error {
	for record, err := range journal.Records(ctx, p.journal(id).Dir, exec, opts, ended) {
		if err != nil {
			return core.Wrap("local.attach", exec, err)
		}
		w := to.Stdout
		if record.Stream == core.Stderr {
			w = to.Stderr
		}
		if w != nil {
			if _, err := w.Write(record.Data); err != nil {
				return core.Wrap("local.attach", exec, core.LostOutput(record.Stream, err))
			}
		}
	}
	return nil
}

// finished is a command that ended before Attach.
type finished struct {
	exec core.Exec
	err  error
}

func (f *finished) ID() string { return f.exec.ID }

func (f *finished) Wait(context.Context) (core.Exit, error) {
	if f.exec.Exit == nil {
		return core.Exit{}, core.Errorf(core.KindConflict, "local.wait", f.exec.ID, "the sandbox was lost while the "+
			"command ran")
	}
	return *f.exec.Exit, f.err
}

func (f *finished) over() error {
	return core.Errorf(core.KindConflict, "local.exec", f.exec.ID, "the command has ended")
}

func (f *finished) Signal(context.Context, int) error               { return f.over() }
func (f *finished) Resize(context.Context, core.TerminalSize) error { return f.over() }
func (f *finished) Close() error                                    { return nil }

// streams collects the descriptors for a supervisor.
type streams struct {
	files []*os.File
	err   error
}

// close closes this process's copies, after the supervisor received them or the request failed.
func (s *streams) close() {
	for _, f := range s.files {
		_ = f.Close()
	}
}
