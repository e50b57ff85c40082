//go:build linux

package box

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/pipes"
	"github.com/seed-0724f904/sb/core/agent/program"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

const (
	// self is this program, whatever became of the file it came from.
	self = "/proc/self/exe"
	// drainGrace is how long output may still be on its way after its command ended.
	drainGrace = 5 * time.Millisecond
	// killGrace is the time between SIGTERM and SIGKILL for a command that exceeded its timeout.
	killGrace = 3 * time.Second
	// victimScore makes the kernel end a command, not the box, when memory runs out (proc(5), oom_score_adj).
	victimScore = "500"

	codeNotFound      = 127
	codeNotExecutable = 126
)

// command is one command that runs, or ran, in the sandbox.
type command struct {
	b       *Box
	pid     int // 0: it did not start
	control *os.File
	report  *os.File // of sb-guest pty; nil without a terminal, as control
	pumps   []*pump
	// done is closed when the command has ended and its output is written.
	done chan struct{}

	mu       sync.Mutex
	stdin    *os.File // nil once it is closed
	exec     core.Exec
	timedOut bool
}

// start runs a command. to receives its id, before another caller can wait for that id, and its output; it may be nil.
// A program that cannot run is a command that has ended. The caller has acquired the box; the command's end releases
// it.
func (b *Box) start(r wire.Request, id string, to *client) (c *command, err error) {
	release := b.release
	defer func() {
		if err != nil {
			release()
		}
	}()
	who, err := lookupUser(cmp.Or(r.User, b.config.User))
	if err != nil {
		return nil, err
	}
	dir := cmp.Or(r.Workdir, b.config.Workdir, "/")
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, core.Errorf(core.KindNotFound, "exec", dir, "there is no such directory to work in")
	}
	c = &command{b: b, done: make(chan struct{})}
	c.exec = core.Exec{
		ID: b.number(id), Sandbox: b.config.ID, Command: r.Argv, User: r.User, Workdir: dir,
		TTY: r.TTY, Detach: r.Detach, Actor: r.Actor, Started: time.Now(),
	}
	env := b.environment(r.Env, r.Secrets, who.home)
	if _, set := r.Env["TERM"]; r.TTY && !set {
		env = append(env, "TERM=xterm-256color")
	}
	output, err := c.openJournal(r.Secrets)
	if err != nil {
		return nil, err
	}
	argv, file := r.Argv, self
	if r.TTY {
		argv = guest.PTYArgv(r.Size, r.Argv)
	} else if file, err = program.Find(r.Argv[0], path(env), dir); err != nil {
		return c, c.notStarted(err, output, to)
	}
	ended, err := c.spawn(file, argv, env, dir, who, output)
	if errno, ok := errors.AsType[syscall.Errno](err); ok && unrunnable(errno) {
		return c, c.notStarted(err, output, to)
	}
	if err != nil {
		return nil, errors.Join(core.Errorf(core.KindExhausted, "exec", r.Argv[0], "it cannot be started: %w", err), output.Close())
	}
	if !r.Stdin {
		c.closeStdin()
	}
	b.mu.Lock()
	b.commands[c.exec.ID] = c
	b.mu.Unlock()
	c.introduce(to)
	c.follow(to, r.Timeout, ended, output)
	return c, nil
}

// openJournal makes the command's entry in the journal and the place of its output.
func (c *command) openJournal(secrets map[string]string) (*journal.Output, error) {
	limit := c.b.config.ExecLogLimit
	if c.exec.ID == wire.EntryID {
		limit = c.b.config.EntryLogLimit
	}
	output, err := journal.Create(c.b.dir.Journal(), c.exec.ID, limit, c.b.secrets.Add(secrets))
	if err != nil {
		return nil, journalError(err)
	}
	if err := journal.Write(c.b.dir.Journal(), c.exec); err != nil {
		return nil, errors.Join(journalError(err), output.Close())
	}
	return output, nil
}

// follow carries a command's output and waits for its end, from now on.
func (c *command) follow(to *client, timeout time.Duration, ended <-chan syscall.WaitStatus, output *journal.Output) {
	var carried sync.WaitGroup
	for _, p := range c.pumps {
		carried.Go(func() { p.carry(to) })
	}
	c.b.wg.Go(func() {
		carried.Wait()
		_ = output.Close()
	})
	c.b.wg.Go(func() { c.attend(timeout, ended, output) })
}

// spawn starts the process with pipes.
func (c *command) spawn(file string, argv, env []string, dir string, who user, output *journal.Output) (<-chan syscall.WaitStatus, error) {
	var ends pipes.Set
	stdin, stdout, stderr := ends.Input(), ends.Output(), ends.Output()
	terminal := file == self
	if terminal {
		c.control = ends.Input()
	}
	defer ends.CloseTheirs()
	if err := ends.Err(); err != nil {
		ends.CloseOurs()
		return nil, err
	}
	files := make([]uintptr, len(ends.Theirs()))
	for i, f := range ends.Theirs() {
		files[i] = f.Fd()
	}
	pid, ended, err := c.b.reaper.start(file, argv, &syscall.ProcAttr{
		Dir: dir, Env: env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: who.groups}},
	})
	if err != nil {
		ends.CloseOurs()
		return nil, err
	}
	if c.b.config.Spec.Memory > 0 {
		// A command that has ended already has no score.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(victimScore), 0)
	}
	c.pid, c.stdin = pid, stdin
	c.pumps = []*pump{{stream: core.Stdout, from: stdout, output: output, drained: make(chan struct{})}}
	if terminal {
		c.report = stderr
	} else {
		c.pumps = append(c.pumps, &pump{stream: core.Stderr, from: stderr, output: output, drained: make(chan struct{})})
	}
	return ended, nil
}

func path(env []string) string {
	for _, variable := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			return value
		}
	}
	return program.DefaultPath
}

// unrunnable says whether the failure is the program's.
func unrunnable(errno syscall.Errno) bool {
	switch errno {
	case unix.ENOENT, unix.EACCES, unix.ENOEXEC, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.EPERM, unix.EISDIR, unix.ELIBBAD:
		return true
	}
	return false
}

// introduce tells the caller the command's id.
func (c *command) introduce(to *client) {
	if to != nil {
		to.sendJSON(wire.FrameStarted, wire.Started{ID: c.exec.ID})
	}
}

// notStarted ends a command whose program cannot be run, as a shell would.
func (c *command) notStarted(cause error, output *journal.Output, to *client) error {
	c.introduce(to)
	code, message := codeNotExecutable, "it cannot be executed"
	if errors.Is(cause, fs.ErrNotExist) || errors.Is(cause, unix.ENOTDIR) {
		code, message = codeNotFound, "there is no such program"
	}
	c.exec.Ended = time.Now()
	c.exec.Exit = &core.Exit{Code: code, Message: c.exec.Command[0] + ": " + message}
	close(c.done)
	c.b.release()
	if err := errors.Join(output.Close(), journal.Write(c.b.dir.Journal(), c.exec)); err != nil {
		c.b.note(err)
	}
	return nil
}

func journalError(err error) error {
	kind := guest.KindOf(err)
	return core.Errorf(kind, "exec", "", "the journal cannot be written: %w", err)
}

// environment is what a command sees: the image's, then the sandbox's, then its own.
func (b *Box) environment(env, secrets map[string]string, home string) []string {
	merged := map[string]string{"PATH": program.DefaultPath}
	for _, variable := range b.env {
		if name, value, ok := strings.Cut(variable, "="); ok && name != "" {
			merged[name] = value
		}
	}
	merged["HOME"] = home
	for _, layer := range []map[string]string{b.config.Spec.Env, b.config.Secrets, env, secrets} {
		maps.Copy(merged, layer)
	}
	list := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, name+"="+merged[name])
	}
	return list
}

// attend waits for the command's end and writes it down.
func (c *command) attend(timeout time.Duration, ended <-chan syscall.WaitStatus, output *journal.Output) {
	defer c.b.release()
	kills := c.b.memoryKills()
	if timeout > 0 {
		limit := time.AfterFunc(timeout, func() {
			c.mu.Lock()
			c.timedOut = true
			c.mu.Unlock()
			_ = c.signal(unix.SIGTERM)
		})
		hard := time.AfterFunc(timeout+killGrace, func() { _ = c.b.reaper.signal(c.pid, unix.SIGKILL) })
		defer hard.Stop()
		defer limit.Stop()
	}
	status := <-ended
	end := time.Now()
	for _, p := range c.pumps {
		_ = p.from.SetReadDeadline(end.Add(drainGrace))
	}
	for _, p := range c.pumps {
		<-p.drained
	}
	exit := core.Exit{Code: status.ExitStatus(), Duration: end.Sub(c.exec.Started)}
	if status.Signaled() {
		exit.Signal = int(status.Signal())
		exit.Code = 128 + exit.Signal
	}
	if c.report != nil {
		_ = c.report.SetReadDeadline(time.Now().Add(drainGrace))
		guest.ReadExit(c.report, &exit)
		_ = c.report.Close()
	}
	c.b.explain(&exit, kills)
	stats := output.Stats()
	c.mu.Lock()
	exit.TimedOut = c.timedOut
	c.exec.Ended, c.exec.Exit = end, &exit
	c.exec.StdoutBytes, c.exec.StderrBytes, c.exec.Truncated = stats.Stdout, stats.Stderr, stats.Truncated
	if c.control != nil {
		_ = c.control.Close()
	}
	entry := c.exec
	c.mu.Unlock()
	c.closeStdin()
	if err := journal.Write(c.b.dir.Journal(), entry); err != nil {
		c.b.note(err)
	}
	close(c.done)
	c.b.mu.Lock()
	delete(c.b.commands, c.exec.ID)
	c.b.mu.Unlock()
}

// result is how the command ended; it must have.
func (c *command) result() *core.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	exit := *c.exec.Exit
	return &exit
}

func (c *command) input() *os.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stdin
}

func (c *command) closeStdin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil {
		_ = c.stdin.Close()
		c.stdin = nil
	}
}

// signal sends a signal to the command's process group, or through sb-guest pty to its terminal's.
func (c *command) signal(number syscall.Signal) error {
	c.mu.Lock()
	control, ended := c.control, c.exec.Exit != nil
	c.mu.Unlock()
	over := func() error { return core.Errorf(core.KindConflict, "kill", c.exec.ID, "the command has ended") }
	if ended {
		return over()
	}
	if control != nil {
		_, err := control.Write(guest.Signal(int(number)))
		return err
	}
	if c.b.reaper.signal(c.pid, number) != nil {
		return over()
	}
	return nil
}

// resize changes the size of the command's terminal.
func (c *command) resize(size core.TerminalSize) error {
	c.mu.Lock()
	control := c.control
	c.mu.Unlock()
	if control == nil {
		return core.Errorf(core.KindConflict, "resize", c.exec.ID, "the command has no terminal")
	}
	_, err := control.Write(guest.Resize(size))
	return err
}

// breakStream closes the read end of a stream whose reader is gone: the command's next write there fails.
func (c *command) breakStream(stream core.Stream) {
	for _, p := range c.pumps {
		if p.stream == stream {
			_ = p.from.Close()
		}
	}
}

// number reserves the next command's id, or returns the one given.
func (b *Box) number(id string) string {
	if id != "" {
		return id
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	return strconv.Itoa(b.last)
}

// continueJournal continues the numbering of a restarted sandbox's journal. Commands that ran when the sandbox stopped
// without notice have no end; the recorded time is when that was found.
func (b *Box) continueJournal() error {
	if err := os.MkdirAll(b.dir.Journal(), 0o700); err != nil {
		return err
	}
	execs, err := journal.Execs(b.dir.Journal())
	if err != nil {
		return err
	}
	for _, e := range execs {
		if n, err := strconv.Atoi(e.ID); err == nil {
			b.last = max(b.last, n)
		}
		if e.Running() {
			e.Ended = time.Now()
			if err := journal.Write(b.dir.Journal(), e); err != nil {
				return err
			}
		}
	}
	return nil
}
