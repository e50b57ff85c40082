//go:build linux

package command

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/program"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providertest"
)

// children is a Host whose processes are this program's children. A name that begins with "no-" is no program.
type children struct {
	mu   sync.Mutex
	busy int
	t    *testing.T
}

func (h *children) Acquire() error { h.count(1); return nil }
func (h *children) Release()       { h.count(-1) }
func (h *children) Note(err error) { h.t.Error(err) }

func (h *children) count(more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy += more
}

func (h *children) Plan(r *wire.Command) (Start, error) {
	if r.User == "unknown" {
		return Start{}, core.Errorf(core.KindUsage, "exec", r.User, "no such user")
	}
	return Start{Argv: r.Argv, Env: os.Environ(), Dir: "/"}, nil
}

func (h *children) Start(start Start) (Process, error) {
	if strings.HasPrefix(start.Argv[0], "no-") {
		return nil, program.ErrNotFound
	}
	if start.Files[0] == nil {
		start.Files[0], _ = os.Open(os.DevNull)
		defer func() { _ = start.Files[0].Close() }()
	}
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", start.Argv[0]}, &os.ProcAttr{
		Dir: start.Dir, Env: start.Env, Files: start.Files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	return child{p}, err
}

type child struct{ *os.Process }

func (c child) Wait() core.Exit {
	state, err := c.Process.Wait()
	if err != nil {
		return core.Exit{Code: exitFailed}
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return core.Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	return core.Exit{Code: state.ExitCode()}
}

func (c child) Signal(number syscall.Signal) error { return unix.Kill(-c.Pid, number) }
func (c child) Explain(*core.Exit)                 {}

// sink is an output of a client; it fails with err if that is set.
type sink struct {
	mu   sync.Mutex
	text strings.Builder
	err  error
	// wrote, if not nil, receives a value for each write.
	wrote chan struct{}
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.wrote != nil {
		s.wrote <- struct{}{}
	}
	return s.text.Write(p)
}
func (s *sink) Close() error { return nil }

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func open(t *testing.T, dir string) (*Commands, *children) {
	t.Helper()
	h := &children{t: t}
	s := New(h, Config{Sandbox: "box", Journal: journal.Entries{Dir: dir}, LogLimit: 1 << 20, EntryLogLimit: 1 << 20})
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Wait()
		if h.busy != 0 {
			t.Errorf("%d commands still keep the sandbox awake", h.busy)
		}
	})
	return s, h
}

func TestCommandsAreJournaled(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	var out, errOut sink
	var ids []string
	client := &Client{Started: func(id string) { ids = append(ids, id) }, Stdout: &out, Stderr: &errOut}
	c, err := s.Run(&wire.Command{Argv: []string{"echo out; echo err >&2; exit 7"}}, client)
	if err != nil {
		t.Fatal(err)
	}
	if exit := c.Exit(); exit.Code != 7 || out.String() != "out\n" || errOut.String() != "err\n" {
		t.Errorf("%+v, %q, %q", exit, out.String(), errOut.String())
	}
	c, err = s.Run(&wire.Command{Argv: []string{"no-such"}}, client)
	if err != nil || c.Exit().Code != exitNotFound || c.Exit().Message != "no-such: program not found" {
		t.Errorf("a program that does not exist: %+v, %v", c.Exit(), err)
	}
	if _, err := s.Run(&wire.Command{Argv: []string{"true"}, User: "unknown"}, nil); !errors.Is(err, core.KindUsage) {
		t.Errorf("an unknown user: %v", err)
	}
	if len(ids) != 2 || ids[0] != "1" || ids[1] != "2" {
		t.Errorf("the ids are %q", ids)
	}
	execs, err := journal.Entries{Dir: dir}.All()
	if err != nil || len(execs) != 2 || execs[0].Exit.Code != 7 || execs[0].StdoutBytes != 4 ||
		execs[1].Exit.Code != exitNotFound {
		t.Errorf("the journal has %+v, %v", execs, err)
	}
	again, _ := open(t, dir)
	if again.Last() != 2 {
		t.Errorf("the numbers continue after %d", again.Last())
	}
}

func TestStreamsAndSignals(t *testing.T) {
	s, _ := open(t, t.TempDir())
	out := sink{wrote: make(chan struct{}, 1)}
	c, err := s.Run(&wire.Command{Argv: []string{"cat; exec sleep 60"}, Stdin: true}, &Client{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stdin().WriteString("in"); err != nil {
		t.Fatal(err)
	}
	c.CloseStdin()
	providertest.Receive(t, out.wrote)
	if err := c.Resize(core.TerminalSize{Rows: 1, Cols: 1}); !errors.Is(err, core.KindConflict) {
		t.Errorf("a resize without a terminal: %v", err)
	}
	if err := c.Obey(wire.Control{Signal: int(unix.SIGKILL)}); err != nil {
		t.Error(err)
	}
	if exit := c.Exit(); exit.Signal != 9 || exit.Code != 137 || out.String() != "in" {
		t.Errorf("%+v, %q", exit, out.String())
	}
	if err := c.Signal(unix.SIGTERM); !errors.Is(err, core.KindConflict) {
		t.Errorf("a signal to a command that has ended: %v", err)
	}
}

func TestTimeoutEndsTheCommand(t *testing.T) {
	s, _ := open(t, t.TempDir())
	c, err := s.RunEntry(&wire.Command{Argv: []string{"exec sleep 60"}, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if exit := c.Exit(); !exit.TimedOut || exit.Signal != int(unix.SIGTERM) || c.ID() != journal.EntryID || !c.Kept() {
		t.Errorf("%+v", exit)
	}
}

// Only a closed reader breaks the stream; a client that disconnects does not.
func TestBrokenStreams(t *testing.T) {
	for err, breaks := range map[error]bool{unix.EPIPE: true, os.ErrClosed: false} {
		s, _ := open(t, t.TempDir())
		broken := make(chan core.Stream, 2)
		client := &Client{Stdout: &sink{err: err}, Broken: func(stream core.Stream) { broken <- stream }}
		c, err := s.Run(&wire.Command{Argv: []string{"echo lost"}}, client)
		if err != nil {
			t.Fatal(err)
		}
		c.Exit()
		if len(broken) == 1 != breaks {
			t.Errorf("%d broken streams", len(broken))
		}
	}
}

func TestUsers(t *testing.T) {
	list, err := ParsePasswd(strings.NewReader("damaged\ndev:x:1000:100:Dev:/home/dev:/bin/sh\nbad:x:a:b::/:\n"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	groups, err := ParseGroup(strings.NewReader("staff:x:50:dev,other\nwheel:x:10:\n"))
	if err != nil || len(groups) != 2 {
		t.Fatal(groups, err)
	}
	both, alone := Users{List: list, Groups: groups}, Users{List: list, OnlyUsers: true}
	for _, test := range []struct {
		users      Users
		text, home string
		uid, gid   uint32
		groups     int
	}{
		{both, "", "/root", 0, 0, 0},
		{both, "0", "/root", 0, 0, 0},
		{both, "dev", "/home/dev", 1000, 100, 1},
		{both, "1000", "/home/dev", 1000, 100, 1},
		{both, "dev:wheel", "/home/dev", 1000, 10, 1},
		{both, "7", "/", 7, 77, 0},
		{alone, "dev:10", "/home/dev", 1000, 10, 0},
	} {
		got, err := test.users.Find(test.text, func(uid uint32) uint32 { return uid * 11 })
		if err != nil || got.Home != test.home || got.UID != test.uid || got.GID != test.gid ||
			len(got.Groups) != test.groups {
			t.Errorf("%q: %+v, %v", test.text, got, err)
		}
	}
	for text, users := range map[string]Users{"nobody": both, "dev:none": both, "dev:staff": alone} {
		if got, err := users.Find(text, func(uint32) uint32 { return 0 }); !errors.Is(err, core.KindUsage) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	base := []string{"A=1", "=x", "HOME=/image"}
	env := Environment(base, "/home", map[string]string{"A": "2"}, map[string]string{"B": "3"})
	if got := strings.Join(env, " "); got != "A=2 B=3 HOME=/home PATH="+program.DefaultPath {
		t.Error(got)
	}
	if got := PathOf([]string{"PATH=/a", "PATH=/b"}); got != "/b" {
		t.Error(got)
	}
}
