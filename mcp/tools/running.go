package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/reply"
)

// runningExecs has the commands whose streams this server holds.
type runningExecs struct {
	mu    sync.Mutex
	execs map[string]*runningExec // by sandbox id and exec id
}

// runningExec is a command that this server started and that has not ended.
type runningExec struct {
	process        core.Process
	stdout, stderr *reply.Capture
	done           chan struct{} // closed when exit and err are known
	exit           core.Exit
	err            error
	stdin          *input // nil when it began without one
	// code and shown are set for code in a session, which is not the command itself.
	code  *code.Call
	shown *shownCode
}

func execKey(sandbox, exec string) string { return sandbox + "/" + exec }

func (r *runningExecs) add(sandbox, exec string, e *runningExec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.execs == nil {
		r.execs = map[string]*runningExec{}
	}
	r.execs[execKey(sandbox, exec)] = e
}

func (r *runningExecs) remove(sandbox, exec string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.execs, execKey(sandbox, exec))
}

func (r *runningExecs) get(sandbox, exec string) *runningExec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.execs[execKey(sandbox, exec)]
}

func (r *runningExecs) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.execs)
}

// send passes input to the command and, with last, ends its stdin.
func (e *runningExec) send(text string, last bool) error {
	if e.stdin == nil {
		return core.Errorf(core.KindConflict, "exec", "", "the command's stdin is closed").
			WithHint("start it with keep_stdin_open: true to send input later")
	}
	return e.stdin.send(text, last)
}

func (e *runningExec) closeStdin() {
	if e.stdin != nil {
		e.stdin.Close()
	}
}

// Execution describes the run of a command.
type Execution struct {
	Spec core.ExecSpec
	// code runs in a session, instead of Spec.
	code *code.Run
	// input is written to stdin first; open keeps stdin open afterwards.
	input string
	open  bool
	// Wait is the soft deadline; budget the characters of output.
	Wait   time.Duration
	Budget int
	// detach returns at once. The command survives a canceled request.
	detach bool
	// once reports that the sandbox ends with the command.
	once bool
}

// killGrace is how long a command has after SIGTERM before SIGKILL.
const killGrace = 5 * time.Second

// The signals that end a command; sigKill follows sigTerm after killGrace.
const (
	sigInt  = 2
	sigTerm = 15
	sigKill = 9
)

// Execute runs a command until it ends or the soft deadline passes, and returns the result so far. A request that the
// client cancels ends the command; a client that vanishes does not.
func (c *Call) Execute(ctx context.Context, sb core.Sandbox, x Execution) (ExecResult, error) {
	id, e, err := c.begin(ctx, sb, x)
	if err != nil {
		return ExecResult{}, err
	}
	if x.detach {
		return ExecResult{
			Sandbox: sb.ID, Exec: id, Running: true,
			Note: c.Host.Words.Text(fmt.Sprintf("It runs in the background. exec_wait with exec_id %q reads its output.", id)),
		}, nil
	}
	return c.await(ctx, sb, id, e, x)
}

// begin starts a command and follows it.
func (c *Call) begin(ctx context.Context, sb core.Sandbox, x Execution) (id string, e *runningExec, err error) {
	e, process, err := c.start(ctx, sb, x)
	if err != nil {
		return "", nil, err
	}
	c.Host.Go(func() { c.Host.follow(sb.ID, process, e) })
	return process.ID(), e, nil
}

func (c *Call) start(ctx context.Context, sb core.Sandbox, x Execution) (*runningExec, core.Process, error) {
	redactor := c.Host.Secrets.add(sb.ID, x.Spec.Secrets)
	e := &runningExec{
		stdout: reply.NewCapture(redactor.Stream()), stderr: reply.NewCapture(redactor.Stream()), done: make(chan struct{}),
	}
	if x.code != nil {
		if err := c.startCode(ctx, sb, *x.code, e); err != nil {
			return nil, nil, err
		}
		c.Host.running.add(sb.ID, e.process.ID(), e)
		return e, e.process, nil
	}
	x.Spec.Stdout, x.Spec.Stderr = e.stdout, e.stderr
	if x.open || x.input != "" {
		in, theirs, err := newInput()
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = theirs.Close() }() // the sandbox has its own copy by then
		x.Spec.Stdin, e.stdin = theirs, in
		c.Host.Go(in.carry)
		if err := in.send(x.input, !x.open); err != nil {
			in.Close()
			return nil, nil, err
		}
	}
	process, err := c.Service.Execs.Start(ctx, sb.Ref(), x.Spec)
	if err != nil {
		e.closeStdin()
		return nil, nil, err
	}
	e.process = process
	c.Host.running.add(sb.ID, process.ID(), e)
	return e, process, nil
}

// follow owns a command's streams until the command or the server ends.
func (h *Host) follow(sandbox string, process core.Process, e *runningExec) {
	e.exit, e.err = process.Wait(h.Context)
	if e.code != nil {
		e.exit, e.err = e.endOfCode(e.exit, e.err)
	}
	_ = process.Close()
	e.stdout.Settle()
	e.stderr.Settle()
	e.closeStdin()
	h.running.remove(sandbox, process.ID())
	close(e.done)
}

// progressEvery is the interval of reports of new output. heartbeatEvery is the interval of reports without new output,
// since clients take silence for a dead call.
const (
	progressEvery  = 500 * time.Millisecond
	heartbeatEvery = 5 * time.Second
)

// await waits for a command that this call started.
func (c *Call) await(ctx context.Context, sb core.Sandbox, id string, e *runningExec, x Execution) (ExecResult, error) {
	begin := time.Now()
	deadline := time.NewTimer(x.Wait)
	defer deadline.Stop()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	lastReport := begin
	for {
		select {
		case <-e.done:
			return c.finished(sb, id, e, x)
		case <-deadline.C:
			return c.readOrSee(ctx, sb, id, e, reading{budget: x.Budget})
		case <-ctx.Done():
			if auth.Canceled(ctx) {
				c.Host.Go(func() { c.Host.end(c.Service, sb, id, e) })
			}
			return ExecResult{}, core.Wrap("exec", sb.Name, ctx.Err())
		case now := <-tick.C:
			line := reply.OneLine(append(e.stderr.Newest(), e.stdout.Newest()...))
			if line == "" && now.Sub(lastReport) < heartbeatEvery {
				continue
			}
			lastReport = now
			if line == "" {
				line = fmt.Sprintf("running for %s", now.Sub(begin).Round(time.Second))
			}
			c.Progress(ctx, line)
		}
	}
}

// kill sends a signal to a command. If the provider cannot find commands by id, it uses e, which may be nil.
func kill(ctx context.Context, svc *service.Service, sb core.Sandbox, id string, e *runningExec, signal int) error {
	err := svc.Execs.Kill(ctx, sb.Ref(), id, signal)
	if errors.Is(err, core.KindUnsupported) && e != nil {
		return e.process.Signal(ctx, signal)
	}
	return err
}

// readOrSee reads a command's journal. If the provider has none, it returns the output that this server captured.
func (c *Call) readOrSee(
	ctx context.Context, sb core.Sandbox, id string, e *runningExec, r reading,
) (ExecResult, error) {
	if e == nil || e.code == nil { // a command's journal has what the command wrote, and not what a session's code did
		r.foreign = e == nil
		result, err := c.read(ctx, sb, id, r)
		if !errors.Is(err, core.KindUnsupported) || e == nil {
			return result, err
		}
	}
	timer := time.NewTimer(r.wait)
	defer timer.Stop()
	select {
	case <-e.done:
		return c.finished(sb, id, e, Execution{Budget: r.budget})
	case <-timer.C:
	case <-ctx.Done():
		return ExecResult{}, core.Wrap("exec", sb.Name, ctx.Err())
	}
	result := c.result(sb, id, e.stdout, e.stderr, Execution{Budget: r.budget}, false)
	result.Running = true
	result.Note = c.Host.Words.Text(fmt.Sprintf("It is still running. exec_wait with exec_id %q waits for it.", id))
	return result, nil
}

// noExec adds a hint for a model to the error for a missing command.
func noExec(err error, sb core.Sandbox, id string) error {
	if !errors.Is(err, core.KindNotFound) {
		return err
	}
	return core.Errorf(core.KindNotFound, "exec", sb.Name, "sandbox %s has no command %q", sb.Name, id).
		WithHint("exec_id is in the result of the call that started it; sandbox://%s/exec lists all", sb.ID)
}

// end stops a command whose request was canceled.
func (h *Host) end(svc *service.Service, sb core.Sandbox, id string, e *runningExec) {
	ctx, cancel := context.WithTimeout(h.Context, 2*killGrace)
	defer cancel()
	signals := []int{sigTerm, sigKill}
	if e.code != nil {
		signals = []int{sigInt} // the session lives on
	}
	for _, signal := range signals {
		if err := kill(ctx, svc, sb, id, e, signal); err != nil {
			return
		}
		grace := time.NewTimer(killGrace)
		select {
		case <-e.done:
			grace.Stop()
			return
		case <-grace.C:
		case <-ctx.Done():
			grace.Stop()
			return
		}
	}
}

// finished returns the result of a command that ended within its call.
func (c *Call) finished(sb core.Sandbox, id string, e *runningExec, x Execution) (ExecResult, error) {
	if e.err != nil {
		if c.Host.Context.Err() != nil {
			return ExecResult{}, core.Errorf(
				core.KindUnavailable, "exec", "", "the server is stopping; command %s keeps running in %s", id, sb.Name,
			)
		}
		return ExecResult{}, e.err
	}
	result := c.result(sb, id, e.stdout, e.stderr, x, true).with(e.exit, c.Host.Secrets.Of(sb.ID))
	if e.shown != nil {
		result.images, result.Note = e.shown.images, c.Host.Secrets.Of(sb.ID).Clean(e.shown.note())
	}
	if x.once {
		result.Note = "It ran in a sandbox of its own, which is gone."
	}
	return result, nil
}

// result renders the content of two captures. whole reports that it is the command's complete output.
func (c *Call) result(sb core.Sandbox, id string, stdout, stderr *reply.Capture, x Execution, whole bool) ExecResult {
	r := ExecResult{Sandbox: sb.ID, Exec: id}
	outHead, outEnd, outTotal := stdout.Snapshot()
	errHead, errEnd, errTotal := stderr.Snapshot()
	forOut, forErr := reply.Share(x.Budget, outTotal, errTotal)
	outURI, errURI := execURI(sb.ID, id, core.Stdout), execURI(sb.ID, id, core.Stderr)
	if x.once {
		outURI, errURI = "gone with its sandbox", "gone with its sandbox"
	}
	out := reply.Clip(outHead, outEnd, outTotal, forOut, whole, outURI)
	errs := reply.Clip(errHead, errEnd, errTotal, forErr, whole, errURI)
	r.Stdout, r.StdoutBytes, r.Stderr, r.StderrBytes = out.Text, outTotal, errs.Text, errTotal
	r.Truncated = out.Cut || errs.Cut
	for _, stream := range []struct {
		name core.Stream
		reply.Clipped
		total int64
	}{{core.Stdout, out, outTotal}, {core.Stderr, errs, errTotal}} {
		if stream.Cut && !x.once {
			r.links = append(r.links, outputLink(sb, id, stream.name, stream.Binary, stream.total))
		}
	}
	return r
}

// outputLink returns a link to the whole of an output.
func outputLink(sb core.Sandbox, id string, stream core.Stream, binary bool, size int64) mcp.ResourceLink {
	kind := "text/plain"
	if binary {
		kind = "application/octet-stream"
	}
	link := mcp.NewResourceLink(execURI(sb.ID, id, stream), string(stream)+" of command "+id,
		"The output of the command, as far as the journal kept it. Add ?offset=N&limit=N for a range of bytes, "+
			"?grep=TEXT for "+
			"matching lines.", kind)
	link.Size = &size
	return link
}

func execURI(sandbox, exec string, stream core.Stream) string {
	return "sandbox://" + sandbox + "/exec/" + exec + "/" + string(stream)
}

// reading configures how a command's journal is read.
type reading struct {
	// cursor is the start position; "" is the beginning.
	cursor string
	// foreign means that this server did not start the command, or that it has ended. It may be a run of code.
	foreign bool
	// wait bounds the wait for the command's end.
	wait   time.Duration
	budget int
}

// read returns a command's output and state from its journal, which outlives this server.
func (c *Call) read(ctx context.Context, sb core.Sandbox, id string, r reading) (ExecResult, error) {
	ref := sb.Ref()
	opts := core.LogOptions{Exec: id, Tail: -1, Follow: r.wait > 0}
	if r.cursor != "" {
		nanos, err := strconv.ParseInt(r.cursor, 10, 64)
		if err != nil {
			return ExecResult{}, core.Errorf(core.KindUsage, "exec", "", "%q is not a cursor", r.cursor).
				WithHint("take it from the result before, or leave it out to read from the beginning")
		}
		opts.Since = time.Unix(0, nanos)
	}
	log, err := c.readLog(ctx, sb, opts, r)
	if err != nil {
		return ExecResult{}, noExec(err, sb, id)
	}
	exec, err := c.Service.Execs.Find(ctx, ref, id)
	if err == nil && exec.Exit != nil && !log.whole {
		// It may have written and ended since the log was read.
		opts.Follow, r.wait = false, 0
		log, err = c.readLog(ctx, sb, opts, r)
	}
	if err != nil {
		return ExecResult{}, noExec(err, sb, id)
	}
	result := c.result(sb, id, log.stdout, log.stderr, Execution{Budget: r.budget}, r.cursor == "" && exec.Exit != nil &&
		!exec.Truncated)
	result.Cursor = r.cursor
	if !log.last.IsZero() {
		result.Cursor = strconv.FormatInt(log.last.UnixNano()+1, 10)
	}
	result.JournalCut = exec.Truncated && r.cursor == ""
	redactor := c.Host.Secrets.Of(sb.ID)
	if log.shown != nil {
		result.images, result.Note = log.shown.images, redactor.Clean(log.shown.note())
	}
	if exec.Exit != nil {
		return result.with(*exec.Exit, redactor), nil
	}
	if result.Running = exec.Running(); result.Running {
		from := "reads its output"
		if result.Cursor != "" {
			from = fmt.Sprintf("and cursor %q reads newer output", result.Cursor)
		}
		result.Note = c.Host.Words.Text(
			fmt.Sprintf("It is still running. exec_wait with exec_id %q %s; exec_kill ends it.", id, from),
		)
	}
	return result, nil
}

// execLog is the output of a command so far.
type execLog struct {
	stdout, stderr *reply.Capture
	last           time.Time  // of its newest part
	shown          *shownCode // of a run of code; nil for other commands
	// whole means that it was read until the command's end.
	whole bool
}

// readLog reads the log of a command. With opts.Follow it waits for the command's end, at most r.wait.
func (c *Call) readLog(ctx context.Context, sb core.Sandbox, opts core.LogOptions, r reading) (*execLog, error) {
	followed, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.wait > 0 {
		followed, cancel = context.WithTimeout(ctx, r.wait)
		defer cancel()
	}
	redactor := c.Host.Secrets.Of(sb.ID)
	log := &execLog{
		stdout: reply.NewCapture(redactor.Stream()), stderr: reply.NewCapture(redactor.Stream()), whole: opts.Follow,
	}
	defer c.report(ctx, log.stdout, log.stderr, r.wait)()
	out, errs := io.Writer(log.stdout), io.Writer(log.stderr)
	if r.foreign {
		begun, err := c.Service.Execs.Find(ctx, sb.Ref(), opts.Exec)
		if err != nil {
			return nil, err
		}
		log.whole = log.whole || begun.Exit != nil
		events := &shownCode{stdout: log.stdout, stderr: log.stderr, pictures: &c.Host.pictures}
		if o, e, ok := code.NewReplay(begun.Command, events.add); ok {
			out, errs, log.shown = o, e, events
		}
	}
	for record, err := range c.Service.Execs.Logs(followed, sb.Ref(), opts) {
		if err != nil {
			if followed.Err() != nil && ctx.Err() == nil {
				log.whole = false
				break // the deadline
			}
			return nil, err
		}
		log.last = record.Time
		if record.Stream == core.Stderr {
			_, _ = errs.Write(record.Data)
		} else {
			_, _ = out.Write(record.Data)
		}
	}
	log.stdout.Settle()
	log.stderr.Settle()
	return log, nil
}

// Output returns the output of a command so far, and its state.
func (c *Call) Output(ctx context.Context, sb core.Sandbox, id string) (ExecResult, error) {
	return c.readOrSee(ctx, sb, id, c.Host.running.get(sb.ID, id), reading{budget: c.Budget(0)})
}

// report sends progress while captures fill. The caller calls stop, which waits for the last report.
func (c *Call) report(ctx context.Context, stdout, stderr *reply.Capture, wait time.Duration) (stop func()) {
	if wait <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		lastReport := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				line := reply.OneLine(append(stderr.Newest(), stdout.Newest()...))
				if line == "" && now.Sub(lastReport) < heartbeatEvery {
					continue
				}
				lastReport = now
				if line == "" {
					line = "running"
				}
				c.Progress(ctx, line)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
