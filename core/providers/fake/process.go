package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
)

const (
	codeNotExecutable = 126
	codeNotFound      = 127
	codeSignal        = 128

	sigInt  = 2
	sigKill = 9
	sigPipe = 13
	sigTerm = 15
)

// killed is the reason for the end of a command.
type killed struct {
	signal  int
	reason  core.Reason
	message string
}

func (k killed) Error() string { return fmt.Sprintf("killed by signal %d", k.signal) }

// process is one command in a sandbox, with all its child programs.
type process struct {
	box     *box
	id      string
	spec    core.ExecSpec // without streams and secrets
	env     []string
	dir     string
	uid     int
	started time.Time
	// missing is the exit code of a program that cannot run, set before the start.
	missing int
	journal *journal
	origin  *client // the client that started it, unless detached
	done    chan struct{}

	ctx    context.Context //nolint:containedctx // it is the command's life, not a call's
	cancel context.CancelCauseFunc

	// stdin is the command's input, nil for none; feed is the other end, to which several clients may write.
	stdin *os.File
	feed  *os.File

	// writing keeps the same order of output for all attached clients.
	writing sync.Mutex

	mu          sync.Mutex
	exit        *core.Exit
	timedOut    bool
	interactive bool // a shell at a terminal: SIGINT ends its programs, not itself
	size        core.TerminalSize
	clients     []*client
	children    map[int]context.CancelCauseFunc
	nextChild   int
	traps       map[int]string
	pending     []int
}

// newProcess prepares a command. The caller holds b.mu and calls run.
func newProcess(b *box, id string, spec core.ExecSpec) (*process, error) {
	uid, err := userID(spec.User, b.sandbox.Spec.User)
	if err != nil {
		return nil, err
	}
	for _, secret := range spec.Secrets {
		if !slices.Contains(b.secrets, secret) {
			b.secrets = append(b.secrets, secret)
		}
	}
	proc := &process{
		box: b, id: id, spec: spec, uid: uid, started: b.provider.opts.Now(), size: spec.Size, done: make(chan struct{}),
		journal:  newJournal(b.provider.opts.LogLimit, b.provider.opts.Now, redact.New(b.secrets)),
		children: map[int]context.CancelCauseFunc{}, traps: map[int]string{},
	}
	proc.spec.Stdin, proc.spec.Stdout, proc.spec.Stderr, proc.spec.Secrets = nil, nil, nil, nil
	proc.spec.Command = slices.Clone(spec.Command)
	proc.dir = path.Join("/", b.sandbox.Spec.Workdir)
	if spec.Workdir != "" {
		proc.dir = path.Join(proc.dir, spec.Workdir)
		if path.IsAbs(spec.Workdir) {
			proc.dir = path.Clean(spec.Workdir)
		}
	}
	env := maps.Clone(b.env)
	maps.Copy(env, spec.Env)
	for _, secret := range spec.Secrets {
		env[secret.Name] = secret.Value.Reveal()
	}
	if spec.TTY {
		env["TERM"] = "xterm-256color"
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		proc.env = append(proc.env, name+"="+env[name])
	}
	_, proc.missing = b.lookUp(spec.Command[0], env["PATH"], proc.dir)
	proc.ctx, proc.cancel = context.WithCancelCause(b.ctx)
	if err := proc.connect(spec); err != nil {
		proc.cancel(nil)
		return nil, core.Errorf(core.KindExhausted, "fake.exec", "", "no descriptors are left: %w", err)
	}
	return proc, nil
}

// userID parses "root", "0", "1000" or "1000:1000".
func userID(name, ofBox string) (int, error) {
	if name == "" {
		name = ofBox
	}
	user, _, _ := strings.Cut(name, ":")
	if user == "" || user == "root" {
		return 0, nil
	}
	uid, err := strconv.Atoi(user)
	if err != nil || uid < 0 {
		return 0, core.Errorf(core.KindUsage, "exec", name, "the sandbox has no user %q", user).WithHint("name root or a uid")
	}
	return uid, nil
}

// run runs the command to its end.
func (proc *process) run() {
	if limit := proc.spec.Timeout; limit > 0 {
		timer := time.AfterFunc(limit, func() {
			proc.mu.Lock()
			proc.timedOut = true
			proc.mu.Unlock()
			_ = proc.signal(sigTerm)
		})
		defer timer.Stop()
		last := time.AfterFunc(limit+graceAfterTimeout, func() { proc.cancel(killed{signal: sigKill}) })
		defer last.Stop()
	}
	exit := core.Exit{}
	switch {
	case proc.missing == codeNotExecutable:
		exit.Code, exit.Message = proc.missing, proc.spec.Command[0]+": permission denied"
	case proc.missing != 0:
		exit.Code, exit.Message = proc.missing, proc.spec.Command[0]+": not found"
	default:
		exit = proc.outcome(proc.runMain())
	}
	proc.mu.Lock()
	exit.Duration = proc.box.provider.opts.Now().Sub(proc.started)
	exit.TimedOut = proc.timedOut && exit.Signal != 0
	proc.exit = &exit
	clients := slices.Clone(proc.clients)
	proc.mu.Unlock()
	proc.journal.end()
	proc.disconnect()
	close(proc.done)
	for _, c := range clients {
		c.atEnd()
	}
}

// outcome returns the exit of a command whose main program returned code and err.
func (proc *process) outcome(code int, err error) core.Exit {
	if err == nil {
		return core.Exit{Code: code}
	}
	k, ok := errors.AsType[killed](context.Cause(proc.ctx))
	if !ok {
		return core.Exit{Code: 1, Message: err.Error()}
	}
	return core.Exit{Code: codeSignal + k.signal, Signal: k.signal, Reason: k.reason, Message: k.message}
}

func (proc *process) alive() bool {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	return proc.exit == nil
}

// result returns the exit of a command that has ended.
func (proc *process) result() core.Exit {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	if proc.exit == nil {
		return core.Exit{}
	}
	return *proc.exit
}

// signal sends a signal to the whole process group: the default action or a trap handles it.
func (proc *process) signal(number int) error {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	if proc.exit != nil {
		return core.Errorf(core.KindConflict, "kill", proc.id, "the command has ended")
	}
	handler, trapped := proc.traps[number]
	switch {
	case ignored(number) || trapped && handler == "" && number != sigKill:
		return nil
	case number != sigKill && (trapped || proc.interactive && number == sigInt):
		if trapped {
			proc.pending = append(proc.pending, number)
		}
		for _, cancel := range proc.children {
			cancel(killed{signal: number})
		}
		return nil
	}
	proc.cancel(killed{signal: number})
	return nil
}

// ignored reports whether the default action of a signal is to ignore it.
func ignored(number int) bool {
	return number == 0 || slices.Contains(
		[]syscall.Signal{syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH}, syscall.Signal(number),
	)
}

// trap sets a shell's handler of a signal.
func (proc *process) trap(number int, handler string) {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	if handler == "-" {
		delete(proc.traps, number)
		return
	}
	proc.traps[number] = handler
}

// caught takes the handler of a pending signal, or "".
func (proc *process) caught() string {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	if len(proc.pending) == 0 {
		return ""
	}
	number := proc.pending[0]
	proc.pending = proc.pending[1:]
	return proc.traps[number]
}

// child returns a context for a program of the shell. A caught signal ends it.
func (proc *process) child(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	proc.mu.Lock()
	defer proc.mu.Unlock()
	number := proc.nextChild
	proc.nextChild++
	proc.children[number] = cancel
	return ctx, func() {
		proc.mu.Lock()
		delete(proc.children, number)
		proc.mu.Unlock()
		cancel(nil)
	}
}

func (proc *process) resize(size core.TerminalSize) error {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	if !proc.spec.TTY {
		return core.Errorf(core.KindConflict, "resize", proc.id, "the command has no terminal")
	}
	proc.size = size
	return nil
}

func (proc *process) terminalSize() core.TerminalSize {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	return proc.size
}

// output is one of a command's streams, as an io.Writer for its programs.
type output struct {
	proc   *process
	stream core.Stream
}

// Write stores data in the journal and passes it to all attached clients. It waits for them.
func (o output) Write(data []byte) (int, error) {
	proc := o.proc
	if err := proc.box.awake(proc.ctx); err != nil {
		return 0, err
	}
	proc.writing.Lock()
	defer proc.writing.Unlock()
	text := data
	if proc.spec.TTY {
		text = []byte(strings.ReplaceAll(string(data), "\n", "\r\n"))
	}
	proc.mu.Lock()
	if proc.exit != nil {
		proc.mu.Unlock()
		return 0, syscall.EPIPE // the output of background commands is discarded
	}
	proc.journal.add(o.stream, text)
	clients := slices.Clone(proc.clients)
	proc.mu.Unlock()
	var broken error
	for _, c := range clients {
		if err := c.deliver(o.stream, text); err != nil && c == proc.origin {
			broken = err
		}
	}
	if broken != nil {
		_ = proc.signal(sigPipe)
		return 0, broken
	}
	return len(data), nil
}
