package modal

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

const (
	// waitCall is the timeout of one call that waits for a command's end.
	waitCall = 55 * time.Second
	// drain is the silence after a command's end that stops the wait for more output.
	drain = 10 * time.Second
	// markVariable is the environment variable that marks a command's processes, so that signals find them.
	markVariable = "SB_EXEC_ID"
	// argumentLimit is Modal's limit for a command line, in bytes.
	argumentLimit = 1 << 16
)

// process is a command in a sandbox. Modal keeps its output, so reading resumes at the same offset after a broken
// connection.
type process struct {
	provider *Provider
	router   *router
	id       string
	tty      bool
	timeout  time.Duration
	started  time.Time
	cancel   context.CancelFunc
	done     chan struct{} // closed when exit or err is set and all output is written
	exit     core.Exit
	err      error
	cut      bool // the output had no end and may be incomplete; set before done is closed
	// from and fed are the offsets at which output and input resume, in bytes. Both are 0 for a command of this process.
	from map[core.Stream]uint64
	fed  uint64
	// noInput disables writes to the command's input.
	noInput bool
	// inputBroke means that the input could not be read to its end.
	inputBroke atomic.Bool
}

// Exec implements core.Provider.
func (p *Provider) Exec(ctx context.Context, id string, spec core.ExecSpec) (core.Process, error) {
	process, err := p.start(ctx, id, spec)
	if err != nil {
		return nil, err
	}
	return process, nil
}

func (p *Provider) start(ctx context.Context, id string, spec core.ExecSpec) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, core.Wrap("modal.exec", id, err)
	}
	size := 0
	for _, arg := range spec.Command {
		size += len(arg)
	}
	if size > argumentLimit {
		return nil, core.Errorf(
			core.KindUsage, "modal.exec", "", "Modal accepts a command line of at most %d bytes, not %d", argumentLimit, size,
		).
			WithHint("pass the data in a file: sb push")
	}
	if spec.User != "" {
		return nil, core.Errorf(core.KindUnsupported, "modal.exec", "", "Modal runs commands as the image's user only")
	}
	r, err := p.router(ctx, id, false)
	if err != nil {
		return nil, err
	}
	proc := &process{
		provider: p, router: r, id: uuid.NewString(), tty: spec.TTY, timeout: spec.Timeout, started: time.Now(),
		done: make(chan struct{}),
	}
	found := &client.Lookups{Client: r.client}
	request, err := proc.request(ctx, spec, found)
	if err != nil {
		return nil, err
	}
	streams, release := core.Streams{Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr}.Own()
	err = proc.begin(ctx, request)
	if status.Code(err) == codes.NotFound && found.Remembered() {
		// A cached secret no longer exists.
		if request, err = proc.request(ctx, spec, &client.Lookups{Client: r.client, Fresh: true}); err == nil {
			err = proc.begin(ctx, request)
		}
	}
	if err == nil && spec.Detach {
		// End the input now: no process may be left to do it later.
		err = proc.write(ctx, 0, nil, true)
		if code := status.Code(err); code == codes.NotFound || code == codes.FailedPrecondition {
			err = nil // the command has already ended
		}
		streams = core.Streams{}
	}
	if err != nil {
		release()
		return nil, p.failed(ctx, "exec", id, err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	proc.cancel = cancel
	go func() {
		defer close(proc.done)
		defer release()
		proc.follow(life, streams)
	}()
	return proc, nil
}

// begin starts the command. A second start with the same id has no effect, so a retry is safe.
func (c *process) begin(ctx context.Context, request *pb.TaskExecStartRequest) error {
	_, err := call(ctx, c.router, func(ctx context.Context) (*pb.TaskExecStartResponse, error) {
		return c.router.stub.TaskExecStart(ctx, request)
	})
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	return err
}

// failed returns the reason why a call to a sandbox's machine failed. After the sandbox's end that machine may return
// any error or be gone. So failed gets the state from Modal.
func (p *Provider) failed(ctx context.Context, op, id string, err error) error {
	if code := status.Code(err); ctx.Err() == nil && (code == codes.NotFound || code == codes.FailedPrecondition ||
		passing(code)) {
		sb, getErr := p.Get(ctx, id)
		switch {
		case getErr == nil && !sb.State.Live():
			p.forget(id)
			return hasEnded(sb)
		case errors.Is(getErr, core.KindNotFound):
			p.forget(id)
			return getErr
		}
	}
	return client.Classify(op, id, err)
}

// notRunning returns the error for an operation on a sandbox that has ended.
func (p *Provider) notRunning(ctx context.Context, id string) error {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return err
	}
	return hasEnded(sb)
}

func hasEnded(sb core.Sandbox) error {
	return core.Errorf(core.KindConflict, "modal.exec", sb.Name, "the sandbox is %s (%s)", sb.State, sb.Reason).
		WithHint("sb logs %s shows its output, sb terminate %s removes it", sb.Name, sb.Name)
}

// request returns the router's request to start a command.
func (c *process) request(
	ctx context.Context, spec core.ExecSpec, lookup *client.Lookups,
) (*pb.TaskExecStartRequest, error) {
	env := map[string]string{markVariable: c.id}
	maps.Copy(env, spec.Env)
	var sources []*pb.SecretSource
	for _, secret := range spec.Secrets {
		if secret.Ref == "" {
			env[secret.Name] = secret.Value.Reveal()
			continue
		}
		found, err := lookup.Secrets(ctx, []core.Secret{secret})
		if err != nil {
			return nil, client.Classify("exec", secret.Ref, err)
		}
		sources = append(sources, pb.SecretSource_builder{SecretId: &found[0].SecretID}.Build())
	}
	sources = append(sources, pb.SecretSource_builder{Env: pb.StringMap_builder{Contents: env}.Build()}.Build())
	request := pb.TaskExecStartRequest_builder{
		TaskId: c.router.task, ExecId: c.id, CommandArgs: spec.Command, SecretSources: sources,
		StdoutConfig: pb.TaskExecStdoutConfig_TASK_EXEC_STDOUT_CONFIG_PIPE,
		StderrConfig: pb.TaskExecStderrConfig_TASK_EXEC_STDERR_CONFIG_PIPE,
	}
	// Output without a reader is discarded. A detached command's output stays readable as its log.
	if spec.Stdout == nil && !spec.TTY && !spec.Detach {
		request.StdoutConfig = pb.TaskExecStdoutConfig_TASK_EXEC_STDOUT_CONFIG_DEVNULL
	}
	if spec.Stderr == nil && !spec.TTY && !spec.Detach {
		request.StderrConfig = pb.TaskExecStderrConfig_TASK_EXEC_STDERR_CONFIG_DEVNULL
	}
	if spec.Workdir != "" {
		request.Workdir = &spec.Workdir
	}
	if spec.Timeout > 0 {
		request.TimeoutSecs = new(uint32(wholeSeconds(spec.Timeout) / time.Second)) //nolint:gosec // not negative
	}
	if spec.TTY {
		size := spec.Size
		if size == (core.TerminalSize{}) {
			size = core.TerminalSize{Rows: 24, Cols: 80}
		}
		request.PtyInfo = pb.PTYInfo_builder{
			Enabled: true, WinszRows: uint32(size.Rows), WinszCols: uint32(size.Cols), EnvTerm: "xterm-256color",
			EnvColorterm: "truecolor",
			PtyType:      pb.PTYInfo_PTY_TYPE_SHELL, NoTerminateOnIdleStdin: true,
		}.Build()
	}
	return request.Build(), nil
}

// follow copies the command's streams until its end.
func (c *process) follow(ctx context.Context, streams core.Streams) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	output := &activity{}
	var outputs sync.WaitGroup
	var outErr, errErr error
	if streams.Stdout != nil {
		outputs.Go(func() {
			outErr = c.read(
				ctx, pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT, streams.Stdout, c.from[core.Stdout],
				output,
			)
		})
	}
	if streams.Stderr != nil && !c.tty {
		outputs.Go(func() {
			errErr = c.read(
				ctx, pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR, streams.Stderr, c.from[core.Stderr],
				output,
			)
		})
	}
	// The command's end also ends its input. This function does not wait for the input: its reader may block forever.
	if !c.noInput {
		go c.feed(ctx, streams.Stdin)
	}
	exit, err := c.ended(ctx)
	if !c.started.IsZero() {
		exit.Duration = time.Since(c.started)
	}
	copied := make(chan struct{})
	go func() { outputs.Wait(); close(copied) }()
	if !c.drained(ctx, copied, output) {
		c.cut = true
		stop()
		<-copied
	}
	switch {
	case err != nil:
		c.err = c.lost(err)
	case outErr != nil || errErr != nil:
		c.err = client.Classify("exec", c.router.sandbox, errors.Join(outErr, errErr))
	}
	if c.inputBroke.Load() && exit.Code == 0 { // a process that the signal missed took half the input for all of it
		exit.Code, exit.Signal = 128+sigHup, sigHup
	}
	c.exit = exit
}

// activity records whether output arrives. A slow reader or a pending connection is busy, which is not silence.
type activity struct {
	mu   sync.Mutex
	came bool
	busy int
}

// note records activity; by is 1 at the start of busy work and -1 at its end.
func (a *activity) note(by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.came, a.busy = true, a.busy+by
}

// silent reports whether there was no activity since the last call.
func (a *activity) silent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	silent := !a.came && a.busy == 0
	a.came = false
	return silent
}

// drained waits for the end of the output after the command's end and reports whether it came. A background process may
// hold the output open.
func (c *process) drained(ctx context.Context, copied <-chan struct{}, output *activity) bool {
	// It counts ticks instead of time: a suspension of this machine is only one silent tick.
	const silences = 10
	tick := time.NewTicker(drain / silences)
	defer tick.Stop()
	for silent := 0; ; {
		select {
		case <-copied:
			return true
		case <-ctx.Done():
			return false
		case <-tick.C:
			if !output.silent() {
				silent = 0
				continue
			}
			if silent++; silent >= silences {
				return false
			}
		}
	}
}

// lost returns the reason why the end of a command is unknown.
func (c *process) lost(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return c.provider.failed(ctx, "exec", c.router.sandbox, err)
}

// writeError is a failure to write output on this machine.
type writeError struct {
	stream core.Stream
	err    error
}

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// read copies one stream of output. After a broken connection it resumes at the offset that it has reached.
func (c *process) read(
	ctx context.Context, fd pb.TaskExecStdioFileDescriptor, w io.Writer, offset uint64, output *activity,
) error {
	for p := c.router.patient(); ; {
		err := c.readFrom(ctx, fd, &offset, w, output, p)
		if err == nil {
			return nil
		}
		if broken, ok := errors.AsType[*writeError](err); ok {
			// The command gets SIGPIPE, as with a broken pipe.
			_ = c.Signal(ctx, sigPipe)
			return core.LostOutput(broken.stream, broken.err)
		}
		output.note(1)
		err = p.again(ctx, err)
		output.note(-1)
		if err != nil {
			return err
		}
	}
}

func (c *process) readFrom(
	ctx context.Context, fd pb.TaskExecStdioFileDescriptor, offset *uint64, w io.Writer, output *activity, p *patience,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	output.note(1) // a reconnection is not silence
	stream, err := c.router.stub.TaskExecStdioRead(c.router.authorized(ctx), pb.TaskExecStdioReadRequest_builder{
		TaskId: c.router.task, ExecId: c.id, Offset: *offset, FileDescriptor: fd,
	}.Build())
	output.note(-1)
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p.progress()
		output.note(1)
		_, err = w.Write(part.GetData())
		output.note(-1)
		if err != nil {
			stream := core.Stdout
			if fd == pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR {
				stream = core.Stderr
			}
			return &writeError{stream, err}
		}
		*offset += uint64(len(part.GetData()))
	}
}

// ended waits for the command's end.
func (c *process) ended(ctx context.Context) (core.Exit, error) {
	request := pb.TaskExecWaitRequest_builder{TaskId: c.router.task, ExecId: c.id}.Build()
	for p := c.router.patient(); ; {
		callCtx, cancel := context.WithTimeout(ctx, waitCall)
		reply, err := c.router.stub.TaskExecWait(c.router.authorized(callCtx), request)
		expired := callCtx.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil && reply.HasExitStatus():
			return c.exitOf(reply), nil
		case expired || err == nil:
			p.progress()
			continue
		}
		if err := p.again(ctx, err); err != nil {
			return core.Exit{}, err
		}
	}
}

// exitStatus is the common part of Modal's replies to a wait and to a poll: the end of a command.
type exitStatus interface {
	HasSignal() bool
	GetSignal() int32
	GetCode() int32
}

// exitOf converts a reply. It distinguishes a signal, an exit code and a command that Modal ended.
func (c *process) exitOf(reply exitStatus) core.Exit {
	over := c.timeout > 0 && time.Since(c.started) >= c.timeout
	if reply.HasSignal() {
		signal := int(reply.GetSignal())
		exit := core.Exit{Code: 128 + signal, Signal: signal}
		if signal == sigKill && over {
			exit.TimedOut = true
		}
		return exit
	}
	code := int(reply.GetCode())
	if code < 0 {
		return core.Exit{Code: 128 + sigKill, TimedOut: over, Message: "Modal ended the command without an exit code"}
	}
	return core.Exit{Code: code & 0xff}
}

// ID implements core.Process.
func (c *process) ID() string { return c.id }

// Wait implements core.Process.
func (c *process) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-c.done:
		return c.exit, c.err
	case <-ctx.Done():
		return core.Exit{}, core.Wrap("modal.wait", c.id, ctx.Err())
	}
}

// Cut implements files.Process.
func (c *process) Cut() bool { return c.cut }

// Close implements core.Process.
func (c *process) Close() error {
	c.cancel()
	<-c.done
	return nil
}
