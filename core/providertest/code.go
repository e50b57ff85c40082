package providertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
)

// starter is a provider as code.Starter.
type starter struct{ core.Provider }

func (s starter) Start(ctx context.Context, ref string, spec core.ExecSpec) (core.Process, error) {
	return s.Exec(ctx, ref, spec)
}

// coder runs code in one sandbox.
type coder struct {
	t        *testing.T
	provider core.Provider
	sessions code.Sessions
	sandbox  string
}

// said is what one run has said.
type said struct {
	stdout, stderr, value string
	failure               code.Event
	end                   code.Event
	types                 []code.EventType
}

func (c coder) run(text string, change ...func(*code.Run)) (said, error) {
	c.t.Helper()
	run := code.Run{Language: code.Python, Code: text}
	for _, f := range change {
		f(&run)
	}
	ctx := Patient(c.t)
	var s said
	call, err := c.sessions.Start(ctx, c.sandbox, run, s.add)
	if err != nil {
		return s, err
	}
	defer func() { _ = call.Close() }()
	s.end, err = call.Wait(ctx)
	return s, err
}

func (s *said) add(e code.Event) {
	s.types = append(s.types, e.Type)
	switch e.Type {
	case code.EventStdout:
		s.stdout += e.Text
	case code.EventStderr:
		s.stderr += e.Text
	case code.EventResult:
		s.value += e.Plain()
	case code.EventError:
		s.failure = e
	case code.EventQueued, code.EventBegin, code.EventTimeout, code.EventEnd:
	}
}

// must is run for code that has to succeed.
func (c coder) must(text string, change ...func(*code.Run)) said {
	c.t.Helper()
	s, err := c.run(text, change...)
	if err != nil || !s.end.OK {
		c.t.Fatalf("%q: %v, %+v", text, err, s)
	}
	return s
}

func session(name string) func(*code.Run) { return func(r *code.Run) { r.Session = name } }

// RunCode checks the code sessions of a provider. It takes half a minute, so it is apart from the contract, which some
// providers run several times. In a sandbox without interpreters it checks the error.
func RunCode(t *testing.T, open Opener) {
	t.Helper()
	p := (&suite{open: open}).provider(t)
	sb := launch(t, p, func(spec *core.Spec) { spec.Workdir = "/tmp" })
	c := coder{t, p, code.Sessions{Execs: starter{p}}, sb.ID}
	for language, program := range map[code.Language]string{code.Python: "python3", code.JavaScript: "node"} {
		if sh(t, p, sb.ID, program+" --version").exit.Code != 0 {
			_, err := c.run("1", func(r *code.Run) { r.Language = language })
			if !errors.Is(err, core.KindUnsupported) || !strings.Contains(err.Error(), program) {
				t.Errorf("without %s: %v", program, err)
			}
			if language == code.Python {
				return
			}
		}
	}
	if sh(t, p, sb.ID, "node --version").exit.Code == 0 {
		c.javaScript()
	}
	if sh(t, p, sb.ID, "bash --version").exit.Code == 0 {
		c.bash()
	}
	c.state()
	c.failures()
	c.interrupts()
	c.twoClients()
	c.lost()
}

// state checks that variables stay, and the order of events.
func (c coder) state() {
	c.t.Helper()
	c.must("x = 41")
	got := c.must("import os, sys\nprint('one')\nprint('two', file=sys.stderr)\nos.system('echo three')\nx + 1")
	if got.stdout != "one\nthree\n" || got.stderr != "two\n" || got.value != "42" || got.end.Count != 2 {
		c.t.Errorf("the second run: %+v", got)
	}
	if got := c.must("x", session("other"), func(r *code.Run) { r.Code = "'x' in globals()" }); got.value != "False" {
		c.t.Errorf("another session has the variable: %+v", got)
	}
	got = c.must("open('made.txt', 'w').write('abc')")
	if len(got.end.Files) != 1 || got.end.Files[0] != (code.File{Name: "made.txt", Size: 3}) {
		c.t.Errorf("files: %+v", got.end.Files)
	}
	sessions, err := c.sessions.List(Patient(c.t), c.sandbox)
	if err != nil || len(sessions) != 2 || sessions[0].Name != code.DefaultSession ||
		sessions[0].State != code.StateIdle || sessions[0].Count != 3 {
		c.t.Errorf("sessions: %+v, %v", sessions, err)
	}
	if err := c.sessions.Close(Patient(c.t), c.sandbox, code.Python, "other"); err != nil {
		c.t.Error(err)
	}
	if err := c.sessions.Close(Patient(c.t), c.sandbox, code.Python, "other"); !errors.Is(err, core.KindNotFound) {
		c.t.Errorf("closed twice: %v", err)
	}
	big := c.must("print('y' * (3 << 20))")
	if len(big.stdout) != 3<<20+1 {
		c.t.Errorf("%d bytes of output", len(big.stdout))
	}
}

// javaScript checks sessions of the other language, which are apart from those of Python.
func (c coder) javaScript() {
	c.t.Helper()
	js := func(r *code.Run) { r.Language = code.JavaScript }
	c.must("const x = 40; console.log('one'); console.error('two')", js)
	got := c.must("const x = 41; console.log(x); await new Promise((done) => setTimeout(done, 1)); x + 1", js)
	if got.stdout != "41\n" || got.value != "42" || got.end.Count != 2 {
		c.t.Errorf("JavaScript: %+v", got)
	}
	if got, err := c.run("null.x", js); err != nil || got.end.OK || got.failure.Name != "TypeError" {
		c.t.Errorf("an error of JavaScript: %+v, %v", got, err)
	}
	for _, loop := range []string{"while (true) {}", "await new Promise(() => setTimeout(() => {}, 1e6))"} {
		got, err := c.run(loop, js, func(r *code.Run) { r.Timeout = time.Second })
		if err != nil || got.failure.Name != "KeyboardInterrupt" {
			c.t.Errorf("%s: %+v, %v", loop, got, err)
		}
	}
	if got := c.must("x", js); got.value != "41" {
		c.t.Errorf("the variable after interrupts: %+v", got)
	}
	if _, err := c.run("process.exit(3)", js); !errors.Is(err, core.KindUnavailable) {
		c.t.Errorf("the run that ends its session: %v", err)
	}
	if _, err := c.run("1", js); !code.Lost(err) {
		c.t.Errorf("the run after: %v", err)
	}
	if err := c.sessions.Close(Patient(c.t), c.sandbox, code.JavaScript, ""); err != nil {
		c.t.Error(err)
	}
}

// bash checks sessions of bash.
func (c coder) bash() {
	c.t.Helper()
	bash := func(r *code.Run) { r.Language = code.Bash }
	c.must("x=41; f() { echo $((x + $1)); }; cd /usr", bash)
	got := c.must("f 1; pwd; echo two >&2; printf 'no newline'", bash)
	if got.stdout != "42\n/usr\nno newline" || got.stderr != "two\n" || got.end.Count != 2 {
		c.t.Errorf("bash: %+v", got)
	}
	if got, err := c.run("ls /nosuch", bash); err != nil || got.end.OK || got.stderr == "" {
		c.t.Errorf("a command that fails: %+v, %v", got, err)
	}
	for _, loop := range []string{
		"while :; do :; done", "g() { while :; do sleep 0.1; done; }; g; echo on", "sleep 600; echo on",
	} {
		got, err := c.run(loop, bash, func(r *code.Run) { r.Timeout = time.Second })
		if err != nil || got.failure.Name != "KeyboardInterrupt" || got.stdout != "" {
			c.t.Errorf("%s: %+v, %v", loop, got, err)
		}
	}
	if got := c.must("echo $x; (sleep 2; echo late) &", bash); !strings.HasPrefix(got.stdout, "41\n") {
		c.t.Errorf("the variable after interrupts: %+v", got)
	}
	big := c.must("head -c 3000000 /dev/zero | tr '\\0' y", bash)
	if len(big.stdout) != 3_000_000 {
		c.t.Errorf("%d bytes of output", len(big.stdout))
	}
	all, err := c.sessions.List(Patient(c.t), c.sandbox)
	if err != nil || !slices.ContainsFunc(all, func(s code.Session) bool {
		return s.Language == code.Bash && s.State == code.StateIdle && s.Count == 8
	}) {
		c.t.Errorf("sessions: %+v, %v", all, err)
	}
	if _, err := c.run("exit 3", bash); !errors.Is(err, core.KindUnavailable) {
		c.t.Errorf("the run that ends its session: %v", err)
	}
	if _, err := c.run("true", bash); !code.Lost(err) {
		c.t.Errorf("the run after: %v", err)
	}
	c.must("true", bash, func(r *code.Run) { r.New = true })
	if err := c.sessions.Close(Patient(c.t), c.sandbox, code.Bash, ""); err != nil {
		c.t.Error(err)
	}
}

func (c coder) failures() {
	c.t.Helper()
	got, err := c.run("def f():\n    return 1 / 0\nf()")
	if err != nil || got.end.OK || got.failure.Name != "ZeroDivisionError" || got.failure.Value != "division by zero" {
		c.t.Errorf("an error: %+v, %v", got, err)
	}
	if trace := strings.Join(got.failure.Traceback, "\n"); !strings.Contains(trace, "return 1 / 0") ||
		strings.Contains(trace, "<session>") {
		c.t.Errorf("the traceback:\n%s", trace)
	}
	if got, err = c.run("while True print"); err != nil || got.failure.Name != "SyntaxError" {
		c.t.Errorf("wrong syntax: %+v, %v", got, err)
	}
	if got := c.must("x"); got.value != "41" {
		c.t.Errorf("the variable after errors: %+v", got)
	}
}

func (c coder) interrupts() {
	c.t.Helper()
	got, err := c.run("import time\ntime.sleep(600)", func(r *code.Run) { r.Timeout = time.Second })
	if err != nil || got.failure.Name != "KeyboardInterrupt" || !slices.Contains(got.types, code.EventTimeout) {
		c.t.Errorf("a timeout: %+v, %v", got, err)
	}
	stubborn := "import os, time\nwhile not os.path.exists('enough'):\n    try: time.sleep(0.1)\n" +
		"    except KeyboardInterrupt: pass"
	got, err = c.run(stubborn, func(r *code.Run) { r.Timeout = time.Second })
	if err != nil || got.failure.Name != "TimeoutError" || got.end.OK {
		c.t.Errorf("code that ignores its timeout: %+v, %v", got, err)
	}
	if r := sh(c.t, c.provider, c.sandbox, "touch /tmp/enough"); r.exit.Code != 0 {
		c.t.Fatal(r)
	}
	began := make(chan struct{})
	var once sync.Once
	var s said
	ctx := Patient(c.t)
	call, err := c.sessions.Start(ctx, c.sandbox, code.Run{Language: code.Python, Code: "while True: print('on')"},
		func(e code.Event) {
			s.add(e)
			if e.Type == code.EventStdout {
				once.Do(func() { close(began) })
			}
		})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = call.Close() }()
	select {
	case <-began:
	case <-ctx.Done():
		c.t.Fatal("the code did not begin")
	}
	if err := c.sessions.Interrupt(ctx, c.sandbox, code.Python, ""); err != nil {
		c.t.Error(err)
	}
	if end, err := call.Wait(ctx); err != nil || end.OK || s.failure.Name != "KeyboardInterrupt" {
		c.t.Errorf("interrupted: %+v, %v, %+v", end, err, s.failure)
	}
	if got := c.must("x"); got.value != "41" {
		c.t.Errorf("the variable after interrupts: %+v", got)
	}
}

// twoClients checks that runs of one session come one after the other.
func (c coder) twoClients() {
	c.t.Helper()
	c.must("n = 0")
	const clients, each = 3, 5
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				if _, err := c.run("was = n; import time; time.sleep(0.01); n = was + 1"); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var first sync.WaitGroup
	for range clients { // of a session that none of them has seen
		first.Go(func() {
			if _, err := c.run("n = globals().get('n', 0) + 1", session("shared")); err != nil {
				c.t.Error(err)
			}
		})
	}
	first.Wait()
	if got := c.must("n", session("shared")); got.value != strconv.Itoa(clients) {
		c.t.Errorf("%d clients that started a session at once: %+v", clients, got)
	}
	if err := c.sessions.Close(Patient(c.t), c.sandbox, code.Python, "shared"); err != nil {
		c.t.Error(err)
	}
	if got := c.must("n"); got.value != strconv.Itoa(clients*each) {
		c.t.Errorf("%s of %d runs counted", got.value, clients*each)
	}
}

// lost checks a session whose process ends. Its next run fails, until a caller asks for a new session.
func (c coder) lost() {
	c.t.Helper()
	if _, err := c.run("import os; os._exit(3)"); !errors.Is(err, core.KindUnavailable) || code.Lost(err) {
		c.t.Errorf("the run that ends its session: %v", err)
	}
	for range 2 {
		if _, err := c.run("x"); !code.Lost(err) || !errors.Is(err, core.KindConflict) {
			c.t.Errorf("the run after: %v", err)
		}
	}
	sessions, err := c.sessions.List(Patient(c.t), c.sandbox)
	if err != nil || len(sessions) != 1 || sessions[0].State != code.StateLost {
		c.t.Errorf("sessions: %+v, %v", sessions, err)
	}
	if got := c.must("'x' in globals()", func(r *code.Run) { r.New = true }); got.value != "False" || got.end.Count != 1 {
		c.t.Errorf("the new session: %+v", got)
	}
	ended := c.must("1", session("short"), func(r *code.Run) { r.IdleTimeout = time.Second })
	if ended.end.Count != 1 {
		c.t.Errorf("%+v", ended)
	}
	eventually(c.t, "the idle session to end", func() bool {
		all, err := c.sessions.List(Patient(c.t), c.sandbox)
		return err == nil && slices.ContainsFunc(all, func(s code.Session) bool {
			return s.Name == "short" && s.State == code.StateEnded
		})
	})
}
