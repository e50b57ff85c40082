package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// stdinChunk is the number of bytes of stdin in one frame.
const stdinChunk = 64 << 10

// Exec implements core.Provider.
func (p *Provider) Exec(ctx context.Context, id string, spec core.ExecSpec) (core.Process, error) {
	request := wire.Request{
		Verb: wire.VerbExec, Command: wire.Command{
			Argv: spec.Command, Env: spec.Env, Workdir: spec.Workdir, User: spec.User, TTY: spec.TTY, Size: spec.Size,
			Timeout: spec.Timeout, Detach: spec.Detach, Stdin: spec.Stdin != nil && !spec.Detach, Secrets: map[string]string{},
		},
	}
	for _, secret := range spec.Secrets {
		if secret.Ref != "" {
			return nil, core.Errorf(core.KindUnsupported, "docker.exec", secret.Name, "container engines do not store secrets")
		}
		request.Secrets[secret.Name] = secret.Value.Reveal()
	}
	k, err := p.knownOf(ctx, id)
	if err != nil {
		return nil, err
	}
	request.Actor = k.actor
	streams := core.Streams{Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr}
	if spec.Detach {
		streams = core.Streams{}
	}
	return p.begin(ctx, id, "exec", request, streams)
}

// Attach implements core.Attacher.
func (p *Provider) Attach(ctx context.Context, id, exec string, streams core.Streams) (core.Process, error) {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if sb.State != core.StateRunning {
		return p.replay(ctx, sb, exec, streams)
	}
	request := wire.Request{Verb: wire.VerbAttach, Exec: exec, Replay: streams.Replay}
	return p.begin(ctx, id, "attach", request, streams)
}

// begin makes a call that starts or follows a command. It returns once the command has its id.
func (p *Provider) begin(
	ctx context.Context, id, op string, request wire.Request, streams core.Streams,
) (core.Process, error) {
	c, err := p.dial(ctx, id, op, request)
	if err != nil {
		return nil, err
	}
	streams, release := streams.Own()
	process := &process{
		call: c, streams: streams, release: release, detach: request.Detach,
		started: make(chan struct{}), done: make(chan struct{}), controlReply: make(chan error, 1),
		credit: make(chan struct{}, 1), window: wire.StdinWindow,
	}
	go process.receive()
	// Giving up ends the wait for the start; the command may have started.
	stop := context.AfterFunc(ctx, c.close)
	select {
	case <-process.started:
	case <-process.done:
	}
	if !stop() {
		<-process.done
		return nil, core.Wrap("docker."+op, id, ctx.Err())
	}
	select {
	case <-process.started:
	default:
		// The call ended before the command started.
		return nil, process.err
	}
	if streams.Stdin != nil {
		go process.feed(streams.Stdin, request.Verb == wire.VerbExec)
	}
	return process, nil
}

// process is a command that this process started or attached to.
type process struct {
	call    *call
	streams core.Streams
	// release closes this process's own copies of the streams.
	release func()
	detach  bool
	id      string
	// started is closed when id is set; done is closed when the command has ended and all of its output has arrived.
	started chan struct{}
	done    chan struct{}
	exit    core.Exit
	err     error
	// outputLost is the reason for lost output. Only receive uses it.
	outputLost error

	sendMu sync.Mutex
	// controlMu is held for one control and its answer, which comes on controlReply.
	controlMu    sync.Mutex
	controlReply chan error

	// window is the number of bytes of stdin that may be sent now; credit wakes feed when it grows.
	windowMu sync.Mutex
	window   int
	credit   chan struct{}
}

// ID implements core.Process.
func (p *process) ID() string { return p.id }

// receive handles the sandbox's frames until the command's end.
func (p *process) receive() {
	defer close(p.done)
	defer p.release()
	reply, err := p.call.reply(p.take)
	switch {
	case errors.Is(err, errDetached):
		return
	case err != nil:
		p.err = err
		p.lost()
	case reply.Exit != nil:
		p.exit = *reply.Exit
	}
	if p.err == nil {
		p.err = p.outputLost
	}
}

// errDetached stops the reading of a call. The command keeps running without the call.
var errDetached = errors.New("detached")

// lost converts the error of an ended sandbox to the command's exit: the end of the sandbox ended the command, too.
func (p *process) lost() {
	if p.id == "" || !errors.Is(p.err, core.KindNotFound) && !errors.Is(p.err, core.KindConflict) {
		return
	}
	p.exit = core.Exit{Code: 137, Signal: 9, Message: "the sandbox ended while the command ran: " + p.err.Error()}
	p.err = nil
}

func (p *process) take(kind byte, payload []byte) error {
	switch kind {
	case wire.FrameStarted:
		var started wire.Started
		if err := json.Unmarshal(payload, &started); err != nil {
			return core.Errorf(core.KindInternal, "docker.exec", p.call.id, "the sandbox's answer is damaged: %w", err)
		}
		p.id = started.ID
		close(p.started)
		if p.detach {
			return errDetached
		}
	case wire.FrameStdout:
		p.write(&p.streams.Stdout, core.Stdout, payload)
	case wire.FrameStderr:
		p.write(&p.streams.Stderr, core.Stderr, payload)
	case wire.FrameControlReply:
		var reply wire.Reply
		if err := json.Unmarshal(payload, &reply); err != nil {
			return core.Errorf(core.KindInternal, "docker.exec", p.call.id, "the sandbox's answer is damaged: %w", err)
		}
		select {
		case p.controlReply <- reply.Error.Err("docker.kill"):
		default: // the caller has given up
		}
	case wire.FrameStdinAck:
		n, err := wire.ParseStdinAck(payload)
		if err != nil {
			return err
		}
		p.windowMu.Lock()
		p.window += n
		p.windowMu.Unlock()
		select {
		case p.credit <- struct{}{}:
		default:
		}
	}
	return nil
}

// write passes output to the caller's writer. If that fails, the command's next write to the stream fails, too.
func (p *process) write(to *io.Writer, stream core.Stream, data []byte) {
	if *to == nil {
		return
	}
	if _, err := (*to).Write(data); err != nil {
		*to = nil
		p.outputLost = errors.Join(p.outputLost, core.LostOutput(stream, err))
		_ = p.control(wire.Control{Broken: stream})
	}
}

// feed sends stdin, up to the sandbox's window. A reader that blocks when the command ends is abandoned.
func (p *process) feed(stdin io.Reader, end bool) {
	buffer := make([]byte, stdinChunk)
	for {
		n, err := stdin.Read(buffer)
		if n > 0 && (!p.reserve(n) || p.send(wire.FrameStdin, buffer[:n]) != nil) {
			return
		}
		if err != nil {
			if end {
				_ = p.send(wire.FrameStdinEnd, nil)
			}
			return
		}
	}
}

// reserve waits until n bytes may be sent. It reports false when the command has ended.
func (p *process) reserve(n int) bool {
	for {
		p.windowMu.Lock()
		free := p.window >= n
		if free {
			p.window -= n
		}
		p.windowMu.Unlock()
		if free {
			return true
		}
		select {
		case <-p.credit:
		case <-p.done:
			return false
		}
	}
}

func (p *process) send(kind byte, payload []byte) error {
	p.sendMu.Lock()
	defer p.sendMu.Unlock()
	_, err := p.call.Write(wire.AppendFrame(nil, kind, payload))
	return err
}

func (p *process) control(c wire.Control) error {
	payload, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return p.send(wire.FrameControl, payload)
}

// Wait implements core.Process. For a detached command, it attaches to the journal.
func (p *process) Wait(ctx context.Context) (core.Exit, error) {
	if p.detach {
		attached, err := p.call.p.Attach(ctx, p.call.id, p.id, core.Streams{})
		if err != nil {
			return core.Exit{}, err
		}
		defer func() { _ = attached.Close() }()
		return attached.Wait(ctx)
	}
	// A known exit is returned even when ctx ends at the same moment.
	select {
	case <-p.done:
		return p.exit, p.err
	default:
	}
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return core.Exit{}, core.Wrap("docker.wait", p.id, ctx.Err())
	}
}

// over reports whether the command is known to have ended.
func (p *process) over() bool {
	select {
	case <-p.done:
		return !p.detach
	default:
		return false
	}
}

// Signal implements core.Process.
func (p *process) Signal(ctx context.Context, signal int) error {
	if p.over() {
		return core.Errorf(core.KindConflict, "docker.kill", p.id, "the command has ended")
	}
	return p.sendControl(ctx, wire.Control{Signal: signal})
}

// Resize implements core.Process.
func (p *process) Resize(ctx context.Context, size core.TerminalSize) error {
	if p.over() {
		return core.Errorf(core.KindConflict, "docker.resize", p.id, "the command has ended")
	}
	return p.sendControl(ctx, wire.Control{Size: size})
}

// sendControl sends a control on this call, or on a new call when this one is detached.
func (p *process) sendControl(ctx context.Context, c wire.Control) error {
	if !p.detach {
		return p.ask(ctx, c)
	}
	attached, err := p.call.p.Attach(ctx, p.call.id, p.id, core.Streams{})
	if err != nil {
		return err
	}
	defer func() { _ = attached.Close() }()
	if c.Signal != 0 {
		return attached.Signal(ctx, c.Signal)
	}
	return attached.Resize(ctx, c.Size)
}

// ask sends a control and waits for its answer.
func (p *process) ask(ctx context.Context, c wire.Control) error {
	p.controlMu.Lock()
	defer p.controlMu.Unlock()
	select {
	case late := <-p.controlReply: // of a control that was given up
		_ = late
	default:
	}
	if err := p.control(c); err != nil && !p.over() {
		return core.Errorf(core.KindUnavailable, "docker.kill", p.id, "the connection to the engine was lost: %w", err)
	}
	select {
	case err := <-p.controlReply:
		return err
	case <-p.done:
		// If this control ended the command, its answer is already here.
		select {
		case err := <-p.controlReply:
			return err
		default:
		}
		return core.Errorf(core.KindConflict, "docker.kill", p.id, "the command has ended")
	case <-ctx.Done():
		return core.Wrap("docker.kill", p.id, ctx.Err())
	}
}

// Close implements core.Process. The command keeps running: the sandbox sees only the end of the call. Close does not
// wait for input that is being sent, since an engine may stop reading it once a command has ended.
func (p *process) Close() error {
	p.call.close()
	<-p.done
	return nil
}
