//go:build linux

package command

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

const (
	// drainGrace is the wait for output after the command's end. The kernel has it in the pipe by then.
	drainGrace = 20 * time.Millisecond
	// killGrace is the time between SIGTERM and SIGKILL for a command that exceeded its timeout.
	killGrace = 3 * time.Second
)

// Command is one command that runs, or ran, in the sandbox. It is safe for concurrent use.
type Command struct {
	s       *Commands
	process Process // nil if the program could not run
	kept    bool
	// limit is the end of the command's timeout, or zero without one.
	limit   time.Time
	output  *journal.Output
	control *os.File // messages to sb-guest pty; nil without a terminal
	report  *os.File // sb-guest pty's report; nil without a terminal
	pumps   []*pump
	// done is closed when the command has ended and its output is written.
	done chan struct{}

	mu       sync.Mutex
	stdin    *os.File // nil after it is closed
	exec     core.Exec
	timedOut bool
}

// ID returns the command's id in the journal.
func (c *Command) ID() string { return c.exec.ID }

// Exec returns the command's entry in the journal.
func (c *Command) Exec() core.Exec {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exec
}

// Kept reports whether the command continues in a copy of the sandbox.
func (c *Command) Kept() bool { return c.kept }

// Left returns the rest of the command's timeout, or 0 without one.
func (c *Command) Left() time.Duration {
	if c.limit.IsZero() {
		return 0
	}
	return max(time.Until(c.limit), time.Millisecond)
}

// Done is closed when the command has ended and its output is written.
func (c *Command) Done() <-chan struct{} { return c.done }

// Ended reports whether Done is closed.
func (c *Command) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Exit waits for the command's end and returns its result.
func (c *Command) Exit() core.Exit {
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.exec.Exit
}

// Stdin returns the write end of the command's stdin, or nil if it is closed.
func (c *Command) Stdin() *os.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stdin
}

// CloseStdin ends the command's stdin.
func (c *Command) CloseStdin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil {
		_ = c.stdin.Close()
		c.stdin = nil
	}
}

// open makes the command's entry in the journal and the place of its output.
func (c *Command) open(secrets map[string]string) (err error) {
	limit := c.s.config.LogLimit
	if c.exec.ID == journal.EntryID {
		limit = c.s.config.EntryLogLimit
	}
	if c.output, err = journal.Create(c.s.config.Journal.Dir, c.exec.ID, limit, c.s.Secrets.Add(secrets)); err != nil {
		return err
	}
	if err := c.s.config.Journal.Write(c.exec); err != nil {
		return errors.Join(err, c.output.Close())
	}
	return nil
}

// conclude ends a command that has no process.
func (c *Command) conclude(exit core.Exit) {
	c.exec.Ended, c.exec.Exit = time.Now(), &exit
	if err := errors.Join(c.output.Close(), c.s.config.Journal.Write(c.exec)); err != nil {
		c.s.host.Note(err)
	}
	close(c.done)
}

// attend waits for the command's end and writes it down.
func (c *Command) attend(timeout time.Duration) {
	defer c.s.host.Release()
	if timeout > 0 {
		defer c.bound(timeout)()
	}
	exit := c.process.Wait()
	ended := time.Now()
	for _, p := range c.pumps {
		_ = p.from.SetReadDeadline(ended.Add(drainGrace))
	}
	for _, p := range c.pumps {
		<-p.drained
	}
	exit.Duration = ended.Sub(c.exec.Started)
	if c.report != nil {
		_ = c.report.SetReadDeadline(time.Now().Add(drainGrace))
		guest.ReadExit(c.report, &exit)
		_ = c.report.Close()
	}
	c.process.Explain(&exit)
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
	c.CloseStdin()
	if err := c.s.config.Journal.Write(entry); err != nil {
		c.s.host.Note(err)
	}
	close(c.done)
	c.s.mu.Lock()
	delete(c.s.running, c.exec.ID)
	c.s.mu.Unlock()
}

// bound ends the command after its timeout, until the caller calls release.
func (c *Command) bound(timeout time.Duration) (release func()) {
	timers := []*time.Timer{
		time.AfterFunc(timeout, func() {
			c.mu.Lock()
			c.timedOut = true
			c.mu.Unlock()
			_ = c.Signal(unix.SIGTERM)
		}),
		time.AfterFunc(timeout+killGrace, func() { _ = c.Signal(unix.SIGKILL) }),
		// Root inside may have stopped the sb-guest that passes signals on to a terminal.
		time.AfterFunc(timeout+2*killGrace, func() { _ = c.process.Signal(unix.SIGKILL) }),
	}
	return func() {
		for _, timer := range timers {
			timer.Stop()
		}
	}
}

// Obey carries out a client's request.
func (c *Command) Obey(control wire.Control) error {
	switch {
	case control.Broken != "":
		c.breakStream(control.Broken)
		return nil
	case control.Signal > 0:
		return c.Signal(syscall.Signal(control.Signal))
	}
	return c.Resize(control.Size)
}

// Signal sends a signal to the command's process group, or through sb-guest to its terminal's.
func (c *Command) Signal(number syscall.Signal) error {
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
	err := c.process.Signal(number)
	if errors.Is(err, unix.ESRCH) {
		return over()
	}
	return err
}

// Resize changes the size of the command's terminal.
func (c *Command) Resize(size core.TerminalSize) error {
	c.mu.Lock()
	control := c.control
	c.mu.Unlock()
	if control == nil {
		return core.Errorf(core.KindConflict, "resize", c.exec.ID, "the command has no terminal")
	}
	_, err := control.Write(guest.Resize(size))
	return err
}

// breakStream closes a stream without a reader. The command's next write there fails.
func (c *Command) breakStream(stream core.Stream) {
	for _, p := range c.pumps {
		if p.stream == stream {
			_ = p.from.Close()
		}
	}
}
