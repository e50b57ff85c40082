//go:build linux

package supervisor

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/pipes"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
	"github.com/seed-0724f904/sb/core/providers/local/wire"
)

const (
	// entryID is the entry command's id in the journal.
	entryID = "0"
	// execLogLimit bounds the output that is kept of a command that is not the entry command.
	execLogLimit = 8 << 20
	// exitFailed is the code of a command that could not be started for no fault of the program's.
	exitFailed = 125
	// killGrace is what a command that is over its time has to end by itself.
	killGrace = 3 * time.Second
)

// command is one command that runs, or ran, in the sandbox.
type command struct {
	s       *Supervisor
	process process // nil if the program could not be run
	// spawned says that the sandbox's first process runs it: it goes on in a copy.
	spawned bool
	// limit is when its time is over; zero is never.
	limit   time.Time
	output  *journal.Output
	control *os.File // messages to sb-guest pty; nil without a terminal
	report  *os.File // sb-guest pty's report; nil without a terminal
	pumps   []*pump
	// broken takes the streams that the client's reader closed.
	broken chan core.Stream
	// done is closed when the command has ended and its output is written.
	done chan struct{}

	mu       sync.Mutex
	stdin    *os.File // the command's; nil once it is closed
	exec     core.Exec
	timedOut bool
}

// process is what runs inside.
type process interface {
	// Wait blocks until it ended. It may be called once. When the sandbox ends first it returns an error.
	Wait() (engine.Exit, error)
	Signal(signal syscall.Signal) error
	SignalGroup(signal syscall.Signal) error
}

// run starts a command. clients are the client's descriptors that request announces; run
// closes them, now or later. A program that cannot be run is a command that has ended.
func (s *Supervisor) run(request *wire.Command, id string, clients []*os.File) (*command, error) {
	if err := s.acquire(); err != nil {
		closeAll(clients)
		return nil, err
	}
	c, err := s.begin(request, id, clients)
	if err != nil || c.process == nil {
		s.release()
	}
	return c, err
}

// begin is run without the count of what is under way.
func (s *Supervisor) begin(request *wire.Command, id string, clients []*os.File) (c *command, err error) {
	var ends pipes.Set
	defer func() {
		ends.CloseTheirs()
		if c == nil || c.process == nil {
			ends.CloseOurs()
			closeAll(clients)
		}
	}()
	who, err := lookup(s.passwd, cmp.Or(request.User, s.launch.Spec.User))
	if err != nil {
		return nil, err
	}
	c = s.newCommand(request, id)
	var stdin, control *os.File
	if !c.spawned {
		stdin = ends.Input()
	}
	stdout := ends.Output()
	stderr := ends.Output()
	if request.TTY {
		control = ends.Input()
	}
	if err := ends.Err(); err != nil {
		return nil, classifyExec(err)
	}
	if err := c.openJournal(request.Secrets); err != nil {
		return nil, classifyExec(err)
	}
	if c.process, err = s.begun(c, s.program(request, c, who, ends.Theirs())); err != nil {
		c.process = nil
		if code, why := shellCode(err); code != 0 {
			return c, c.notStarted(code, request.Argv[0]+": "+why.Error())
		}
		err = s.whyNotBegun(err)
		return nil, errors.Join(err, c.notStarted(exitFailed, err.Error()))
	}
	client := announced(request, clients)
	c.stdin, c.control = stdin, control
	c.pumps = []*pump{{stream: core.Stdout, from: stdout, client: client.stdout, drained: make(chan struct{})}}
	if request.TTY {
		c.report = stderr
		if client.stderr != nil {
			_ = client.stderr.Close()
		}
	} else {
		c.pumps = append(c.pumps, &pump{stream: core.Stderr, from: stderr, client: client.stderr, drained: make(chan struct{})})
	}
	s.follow(c, request.Timeout)
	c.feed(client.stdin, true)
	return c, nil
}

// newCommand is a command that has yet to be started.
func (s *Supervisor) newCommand(request *wire.Command, id string) *command {
	return &command{
		s: s, broken: make(chan core.Stream, 2), done: make(chan struct{}),
		spawned: !request.TTY && !request.Stdin && (request.Detach || id == entryID),
		exec: core.Exec{
			ID: s.number(id), Sandbox: s.launch.ID, Command: request.Argv, User: request.User, Workdir: cmp.Or(request.Workdir, s.launch.Spec.Workdir),
			TTY: request.TTY, Detach: request.Detach, Actor: request.Actor, Started: time.Now(),
		},
	}
}

// openJournal makes the command's entry in the journal and the place of its output.
func (c *command) openJournal(secrets map[string]string) (err error) {
	limit := int64(execLogLimit)
	if c.exec.ID == entryID && c.s.launch.LogLimit > 0 {
		limit = c.s.launch.LogLimit
	}
	if c.output, err = journal.Create(c.s.journalDir(), c.exec.ID, limit, c.s.secrets.Add(secrets)); err != nil {
		return err
	}
	if err := journal.Write(c.s.journalDir(), c.exec); err != nil {
		_ = c.output.Close()
		return err
	}
	return nil
}

// program is what is started inside for a command: with a terminal sb-guest, which starts the program on one.
func (s *Supervisor) program(request *wire.Command, c *command, who user, files []*os.File) engine.Command {
	program := engine.Command{
		Argv: request.Argv, Env: environment(who.home, s.launch.Spec.Env, s.launch.Secrets, request.Env, request.Secrets),
		Dir: cmp.Or(c.exec.Workdir, "/"), UID: who.uid, GID: who.gid, Files: files,
	}
	if request.TTY {
		program.Argv = guest.PTYArgv(request.Size, request.Argv)
		program.Argv[0] = engine.GuestPath
		if _, set := request.Env["TERM"]; !set {
			program.Env = append(program.Env, "TERM=xterm-256color")
		}
	}
	return program
}

// begun starts a command, with the sandbox's first process as its parent if it is to go on in a copy.
func (s *Supervisor) begun(c *command, start engine.Command) (process, error) {
	if !c.spawned {
		return s.box.Exec(context.Background(), start)
	}
	return s.box.Spawn(context.Background(), guest.Spawn{
		ID: c.exec.ID, Argv: start.Argv, Env: start.Env, Dir: start.Dir, UID: start.UID, GID: start.GID, Groups: start.Groups,
	}, start.Files[0], start.Files[1])
}

// follow carries a command's output and waits for its end, from now on.
func (s *Supervisor) follow(c *command, timeout time.Duration) {
	if timeout > 0 {
		c.limit = time.Now().Add(timeout)
	}
	s.mu.Lock()
	s.commands[c.exec.ID] = c
	s.mu.Unlock()
	for _, p := range c.pumps {
		s.wg.Go(func() { c.carry(p) })
	}
	s.wg.Go(func() { c.attend(timeout) })
}

// whyNotBegun says why a command could not be started: perhaps because the sandbox ended meanwhile.
func (s *Supervisor) whyNotBegun(err error) error {
	if _, known := errors.AsType[*core.Error](err); !known && s.hasEnded() {
		return core.Errorf(core.KindConflict, "local.exec", s.launch.Spec.Name, "the sandbox ended before the command began: %s", s.whyEnded().message)
	}
	return classifyExec(err)
}

// number reserves the next command's id, or returns the one given.
func (s *Supervisor) number(id string) string {
	if id != "" {
		return id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return strconv.Itoa(s.last)
}

// continueJournal goes on counting where the journal of a restarted sandbox ends.
func (s *Supervisor) continueJournal() {
	execs, err := journal.Execs(s.journalDir())
	if err != nil {
		return
	}
	for _, e := range execs {
		if n, err := strconv.Atoi(e.ID); err == nil {
			s.last = max(s.last, n)
		}
	}
}

// startEntry runs the entry command, whose end is the sandbox's.
func (s *Supervisor) startEntry() error {
	if len(s.launch.Spec.Command) == 0 {
		return nil
	}
	c, err := s.run(&wire.Command{Argv: s.launch.Spec.Command, Actor: s.launch.Lease.Owner.Actor}, entryID, nil)
	if err != nil {
		return err
	}
	if c.process == nil {
		kind := core.KindNotFound
		if c.exec.Exit.Code == 126 {
			kind = core.KindUnauthorized
		}
		return core.Errorf(kind, "local.launch", "", "%s", c.exec.Exit.Message).WithHint("the entry command must be in the sandbox's PATH, or be named by its path")
	}
	s.endWith(c)
	return nil
}

// endWith makes the end of the entry command the sandbox's.
func (s *Supervisor) endWith(c *command) {
	s.wg.Go(func() {
		<-c.done
		c.mu.Lock()
		exit := *c.exec.Exit
		c.mu.Unlock()
		s.mu.Lock()
		s.state.ExitCode = &exit.Code
		s.mu.Unlock()
		if exit.Reason != "" {
			return // the sandbox ended under it: that is the reason, not the command
		}
		s.stopping.Lock()
		defer s.stopping.Unlock()
		s.finish(end{core.StateExited, core.ReasonCommand, "its command ended with code " + strconv.Itoa(exit.Code)})
	})
}

// shellCode is the exit code by which a shell says that a program cannot be run, and why; 0 when the failure is not the program's.
func shellCode(err error) (code int, why error) {
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return 127, engine.ErrNotFound
	case errors.Is(err, engine.ErrNotExecutable):
		return 126, engine.ErrNotExecutable
	}
	return 0, nil
}

// notStarted ends a command that cannot be run.
func (c *command) notStarted(code int, message string) error {
	c.exec.Ended = time.Now()
	c.exec.Exit = &core.Exit{Code: code, Message: message}
	close(c.done)
	return errors.Join(c.output.Close(), journal.Write(c.s.journalDir(), c.exec))
}

// attend waits for the command's end and writes it down.
func (c *command) attend(timeout time.Duration) {
	defer c.s.release()
	var limit *time.Timer
	if timeout > 0 {
		limit = time.AfterFunc(timeout, func() {
			c.mu.Lock()
			c.timedOut = true
			c.mu.Unlock()
			_ = c.signal(unix.SIGTERM)
		})
		hard := time.AfterFunc(timeout+killGrace, func() { _ = c.signal(unix.SIGKILL) })
		defer hard.Stop()
		defer limit.Stop()
	}
	status, err := c.process.Wait()
	ended := time.Now()
	for _, p := range c.pumps {
		_ = p.from.SetReadDeadline(ended.Add(drainGrace))
	}
	for _, p := range c.pumps {
		<-p.drained
	}
	exit := core.Exit{Code: status.Code, Duration: ended.Sub(c.exec.Started)}
	switch {
	case err != nil:
		// The sandbox ended under the command.
		why := c.s.whyEnded()
		exit.Code, exit.Signal, exit.Reason, exit.Message = 137, 9, why.reason, why.message
	case status.Signal != 0:
		exit.Code, exit.Signal = 128+int(status.Signal), int(status.Signal)
	}
	if c.report != nil {
		_ = c.report.SetReadDeadline(time.Now().Add(drainGrace))
		guest.ReadExit(c.report, &exit)
		_ = c.report.Close()
	}
	stats := c.output.Stats()
	c.mu.Lock()
	exit.TimedOut = c.timedOut
	c.exec.Ended, c.exec.Exit = ended, &exit
	c.exec.StdoutBytes, c.exec.StderrBytes, c.exec.Truncated = stats.Stdout, stats.Stderr, stats.Truncated
	if c.control != nil {
		_ = c.control.Close()
	}
	entry := c.exec
	c.mu.Unlock()
	c.closeStdin()
	if err := journal.Write(c.s.journalDir(), entry); err != nil {
		c.s.log.Error("the journal could not be written", "error", err)
	}
	close(c.done)
	c.s.mu.Lock()
	delete(c.s.commands, c.exec.ID)
	c.s.mu.Unlock()
}

// signal sends a signal to the command's process group, or through sb-guest to its terminal's.
func (c *command) signal(number syscall.Signal) error {
	c.mu.Lock()
	control, ended := c.control, c.exec.Exit != nil
	c.mu.Unlock()
	if ended {
		return core.Errorf(core.KindConflict, "kill", c.exec.ID, "the command has ended")
	}
	if control != nil {
		_, err := control.Write(guest.Signal(int(number)))
		return err
	}
	if err := c.process.SignalGroup(number); err != nil {
		return c.process.Signal(number)
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

// whyEnded is why the sandbox is ending, as far as it is known now.
func (s *Supervisor) whyEnded() end {
	select {
	case why := <-s.ending:
		s.finish(why)
		return why
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why.reason != "" {
		return s.why
	}
	return s.crash()
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
