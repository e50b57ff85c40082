package code

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// DefaultSession is the name of a session without another. Each language has its own.
const DefaultSession = "default"

// DefaultIdleTimeout is how long an unused session lives.
const DefaultIdleTimeout = time.Hour

// Starter starts commands in sandboxes, as service.Execs does.
type Starter interface {
	Start(ctx context.Context, ref string, spec core.ExecSpec) (core.Process, error)
}

// Sessions runs code in the sessions of sandboxes. Its methods are safe for concurrent use.
type Sessions struct {
	Execs Starter
}

// Run is code to run.
type Run struct {
	Language Language
	// Session is the session's name; "" is DefaultSession.
	Session string
	Code    string
	// New ends a session of that name first, and starts another.
	New bool
	// IdleTimeout ends a session that this run starts and that is unused for so long; 0 is DefaultIdleTimeout.
	IdleTimeout time.Duration
	// Timeout interrupts the code after so long; 0 does not. Code can ignore that. The time in the queue does not count.
	Timeout time.Duration
	// Env, Secrets, Workdir and User are those of a session that this run starts. A session that runs keeps its own.
	Env     map[string]string
	Secrets []core.Secret
	Workdir string
	User    string
}

// key returns the name under which the sandbox knows the session.
func key(language Language, session string) string {
	return string(language) + "." + cmp.Or(session, DefaultSession)
}

// MaxCode bounds the code of one run, in bytes.
const MaxCode = 16 << 20

func (r Run) validate() error {
	if err := core.ValidateName("the session", cmp.Or(r.Session, DefaultSession)); err != nil {
		return err
	}
	if len(r.Code) > MaxCode {
		return core.Errorf(core.KindUsage, "code", "", "the code has more than %d MiB", MaxCode>>20)
	}
	return nil
}

// errLost is the cause of errors of sessions that ended with their variables.
var errLost = errors.New("the session has ended")

// errEnded is the cause of errors of runs whose session ended meanwhile.
var errEnded = errors.New("the session ended while its code ran, and its variables are gone")

// Lost reports whether a run failed because its session ended before.
func Lost(err error) bool { return errors.Is(err, errLost) }

// Gone reports whether a run failed because its session ended before or meanwhile. Run.New starts another.
func Gone(err error) bool { return errors.Is(err, errLost) || errors.Is(err, errEnded) }

// Call is a run that was started.
type Call struct {
	Process core.Process

	bridge *bridge
}

// Start starts code in a session, and the session if it does not exist. ctx bounds the start only. emit receives one
// event at a time, the last one in Wait. It must return quickly: the code waits meanwhile. The caller closes the Call.
// KindUnsupported: the sandbox has no interpreter of the language, see Wait.
func (s Sessions) Start(ctx context.Context, ref string, r Run, emit func(Event)) (*Call, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	b := newBridge(r.Language)
	b.emit, b.subject = emit, ref
	b.restart = r.New
	place := core.ExecSpec{Env: r.Env, Secrets: r.Secrets, Workdir: r.Workdir, User: r.User}
	name := key(r.Language, r.Session)
	b.serve = func() error {
		idle := cmp.Or(r.IdleTimeout, DefaultIdleTimeout)
		return s.serve(context.WithoutCancel(ctx), ref, place, r.Language.serve(name, int(math.Ceil(idle.Seconds()))))
	}
	args := []string{"run", name, strconv.FormatFloat(r.Timeout.Seconds(), 'f', 3, 64)}
	if r.New {
		args = append(args, "new")
	}
	b.input.write(r.Language.request("run", "code", r.Code))
	place.Command, place.Stdin = r.Language.command(args...), b.input
	place.Stdout, place.Stderr = b.streams()
	process, err := s.Execs.Start(ctx, ref, place)
	if err != nil {
		b.input.close()
		return nil, err
	}
	return &Call{Process: process, bridge: b}, nil
}

// startTimeout bounds the start of a session's process.
const startTimeout = time.Minute

// serve starts the process of a session. It is a detached command, because forks of the sandbox continue those.
func (s Sessions) serve(ctx context.Context, ref string, place core.ExecSpec, argv []string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	place.Command, place.Detach = argv, true
	process, err := s.Execs.Start(ctx, ref, place)
	if err != nil {
		return err
	}
	return process.Close()
}

// Wait blocks until the code has ended, and returns its last event, EventEnd. An error of the code is no error here.
// If ctx ends first, the code keeps running. Lost reports that the session had ended before; KindUnavailable that it
// ended during the run; KindUnsupported that the sandbox has no interpreter.
func (c *Call) Wait(ctx context.Context) (Event, error) { return c.Result(c.Process.Wait(ctx)) }

// Result is Wait for a caller that has waited for the Process.
func (c *Call) Result(exit core.Exit, err error) (Event, error) {
	if refused := c.bridge.refused(); refused != nil {
		return Event{}, refused
	}
	if err != nil {
		return Event{}, err
	}
	return c.bridge.result(exit)
}

// Interrupt raises KeyboardInterrupt in the code.
func (c *Call) Interrupt(ctx context.Context) error { return c.Process.Signal(ctx, sigInt) }

// Close releases the connection. Code that runs keeps running.
func (c *Call) Close() error {
	c.bridge.input.close()
	return c.Process.Close()
}

const sigInt = 2

// Session describes a session of a sandbox. The sandbox made it, so every field is foreign text.
type Session struct {
	Name     string   `json:"name"`
	Language Language `json:"language"`
	// State is idle, busy, ended (its idle time passed) or lost (its process is gone).
	State string `json:"state"`
	// Count is the number of runs; Queued that of those that wait.
	Count   int64     `json:"execution_count"`
	Queued  int64     `json:"queued,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Used    time.Time `json:"used,omitzero"`
	// IdleTimeout is in seconds.
	IdleTimeout int64 `json:"idle_timeout"`
}

// The states of a session.
const (
	StateIdle  = "idle"
	StateBusy  = "busy"
	StateEnded = "ended"
	StateLost  = "lost"
)

// maxSessions bounds a list.
const maxSessions = 1000

// List returns the sessions of a sandbox's user.
func (s Sessions) List(ctx context.Context, ref string) ([]Session, error) {
	var found []Session
	err := s.ask(ctx, ref, Languages(), []string{"ls"}, func(line []byte) error {
		var answer struct {
			Type, Name, State string
			Count             int64 `json:"execution_count"`
			Queued            int64
			Started, Used     float64
			IdleTimeout       int64 `json:"idle_timeout"`
		}
		if err := decode(line, &answer); err != nil {
			return err
		}
		language, name, ok := splitKey(answer.Name)
		ok = ok && slices.Contains([]string{StateIdle, StateBusy, StateEnded, StateLost}, answer.State)
		if answer.Type != eventSession || !ok {
			return nil // of another version, or a file of another program
		}
		if len(found) == maxSessions {
			return core.Errorf(core.KindExhausted, "code", ref, "the sandbox has more than %d sessions", maxSessions)
		}
		found = append(found, Session{
			Name: name, Language: language, State: answer.State, Count: answer.Count, Queued: answer.Queued,
			Started: at(answer.Started), Used: at(answer.Used), IdleTimeout: answer.IdleTimeout,
		})
		return nil
	})
	return found, err
}

// at converts seconds since 1970. Times that no clock shows are zero.
func at(seconds float64) time.Time {
	if !(seconds > 0 && seconds < 1e11) {
		return time.Time{}
	}
	return time.UnixMilli(int64(seconds * 1000))
}

// Interrupt raises KeyboardInterrupt in the code that runs in a session. KindNotFound: there is no such session.
func (s Sessions) Interrupt(ctx context.Context, ref string, language Language, session string) error {
	return s.tell(ctx, ref, language, session, "interrupt")
}

// Close ends a session. KindNotFound: there is none.
func (s Sessions) Close(ctx context.Context, ref string, language Language, session string) error {
	return s.tell(ctx, ref, language, session, "close")
}

func (s Sessions) tell(ctx context.Context, ref string, language Language, session, verb string) error {
	if err := (Run{Session: session}).validate(); err != nil {
		return err
	}
	found := false
	args := []string{verb, key(language, session)}
	err := s.ask(ctx, ref, []Language{language}, args, func(line []byte) error {
		var answer struct {
			Type  string
			Found bool
		}
		if err := decode(line, &answer); err != nil {
			return err
		}
		found = found || answer.Type == eventDone && answer.Found
		return nil
	})
	if err == nil && !found {
		err = core.Errorf(
			core.KindNotFound, "code", session, "sandbox %s has no %s session %q", ref, language,
			cmp.Or(session, DefaultSession),
		).WithHint("sb code ls %s lists the sessions", ref)
	}
	return err
}

// ask runs a bridge of the first language whose interpreter the sandbox has, and passes on the lines of its answer. If
// it has none of them, there is no answer.
func (s Sessions) ask(
	ctx context.Context, ref string, languages []Language, args []string, line func([]byte) error,
) error {
	for _, language := range languages {
		b := newBridge(language)
		b.subject = ref
		b.line = line
		b.input.close() // it has the source
		stdout, stderr := b.streams()
		process, err := s.Execs.Start(ctx, ref, core.ExecSpec{
			Command: language.command(args...), Stdin: b.input, Stdout: stdout, Stderr: stderr,
		})
		if err != nil {
			return err
		}
		exit, err := process.Wait(ctx)
		_ = process.Close()
		switch {
		case b.refused() != nil:
			return b.refused()
		case err != nil:
			return err
		case exit.NotStarted():
			continue
		case exit.Code != 0:
			return b.broken(exit)
		}
		return nil
	}
	return nil
}

// input is the stdin of a bridge. Writes never block.
type input struct {
	mu     sync.Mutex
	wake   *sync.Cond
	held   []byte
	closed bool
}

func newInput(first string) *input {
	in := &input{held: []byte(first)}
	in.wake = sync.NewCond(&in.mu)
	return in
}

func (in *input) write(p []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.held = append(in.held, p...)
	in.wake.Broadcast()
}

func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.wake.Broadcast()
}

// Read implements io.Reader. It blocks until there is input or its end.
func (in *input) Read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.held) == 0 && !in.closed {
		in.wake.Wait()
	}
	if len(in.held) == 0 {
		return 0, io.EOF
	}
	n := copy(p, in.held)
	in.held = in.held[n:]
	return n, nil
}

// tail keeps the end of a bridge's stderr, which has the interpreter's own errors.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	t.kept = append(t.kept, p[max(0, len(p)-most):]...)
	t.kept = t.kept[max(0, len(t.kept)-most):]
	return len(p), nil
}
