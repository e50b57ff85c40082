//go:build unix

package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui"
)

// The dashboard runs in a child of the process that the user started. A Go program can catch neither SIGKILL nor a
// panic in a goroutine of another package. The parent outlives both and restores the terminal.

// watcherEnv is the variable with the parent's process id. Children of the child inherit the variable, but have another
// parent.
const watcherEnv = "SB_UI_WATCHER"

// Files of the child beside its streams.
const (
	crashFile = 3 // the child writes its crash report there
	orderFile = 4 // the child reads the parent's signals there; its end is the parent's end
	takeFile  = 5 // the two ends of the loan's pipe
	putFile   = 6
)

const (
	// maxCrash is how much of a crash's report is kept.
	maxCrash = 64 << 10
	// crashPatience is how long the rest of a report is waited for after the crash.
	crashPatience = time.Second
	// orderPause is the time between two signals to a child that has lost its parent.
	orderPause = time.Second
)

// watched runs a program that has the terminal for itself, and restores the terminal however the program ends. Without
// a terminal it only runs it.
//
// run gets a function that makes its dashboard suspendable.
func watched(ctx context.Context, a *cli.App, run func(ctx context.Context, equip func(*tui.Options)) error) error {
	nothing := func(*tui.Options) {}
	tty, isFile := terminalOf(a)
	if !a.Streams.InTTY() || !a.Streams.OutTTY() || !isFile {
		return run(ctx, nothing)
	}
	if parent, ok := a.LookupEnv(watcherEnv); ok && parent == strconv.Itoa(os.Getppid()) {
		if err := obey(ctx, a); err != nil {
			return err
		}
		s := newSuspender(tty, inheritedLoan())
		watching, cancel := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { s.run(watching) })
		defer done.Wait()
		defer cancel()
		return run(ctx, func(options *tui.Options) { s.equip(ctx, options) })
	}
	return watch(ctx, a)
}

// obey makes this process the child of a watch: it reports its crashes to the parent and takes the parent's signals.
func obey(ctx context.Context, a *cli.App) error {
	syscall.CloseOnExec(crashFile)
	syscall.CloseOnExec(orderFile)
	crash := os.NewFile(crashFile, "crash")
	err := errors.Join(debug.SetCrashOutput(crash, debug.CrashOptions{}), crash.Close())
	if err != nil {
		return core.Errorf(core.KindInternal, "ui", "", "the watching process cannot be notified of a crash: %w", err)
	}
	orders := os.NewFile(orderFile, "orders")
	// This goroutine ends with the process: a live parent without a signal sends nothing.
	go func() {
		order := make([]byte, 1)
		for ctx.Err() == nil {
			if _, err := orders.Read(order); err == nil {
				a.Signals.Raise(syscall.Signal(order[0]))
				continue
			}
			// Without a parent, another job has the terminal. Only a process that ignores this signal can still restore it. A
			// shell of a sandbox takes the first signal that Raise delivers.
			signal.Ignore(syscall.SIGTTOU)
			a.Signals.Raise(syscall.SIGHUP)
			timer := time.NewTimer(orderPause)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}()
	return nil
}

// watch runs this program once more and waits for its end. After a crash it restores the terminal and reports the
// reason.
func watch(ctx context.Context, a *cli.App) error {
	failed := func(err error) error {
		return core.Errorf(core.KindInternal, "ui", "", "the dashboard cannot be started: %w", err)
	}
	restore, err := a.Streams.Keep()
	if err != nil {
		return failed(err)
	}
	child, err := startWatched(a)
	if err != nil {
		return failed(err)
	}
	signals, release := a.Signals.Take()
	defer release()
	// A signal from before this handler has ended ctx.
	if early, ok := errors.AsType[*cli.SignalError](context.Cause(ctx)); ok {
		child.order(early.Signal)
	}
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTSTP)
	defer signal.Stop(stops)
	var ended error
	halts := make(chan syscall.Signal)
	var done sync.WaitGroup
	done.Go(func() {
		defer close(halts)
		ended = child.wait(func(by syscall.Signal) { halts <- by })
	})
	for waiting := true; waiting; {
		select {
		case s := <-signals:
			if cli.EndsProgram(s) {
				child.order(s)
			}
		case <-stops:
			child.suspend() // a stopped child drops the signal
		case by, stopped := <-halts:
			if waiting = stopped; stopped {
				settleSignals()
				select {
				case <-stops: // an earlier signal: both are one stop
				default:
				}
				child.follow(by)
			}
		}
	}
	done.Wait()
	status := child.status
	switch {
	case ended != nil:
		return failed(ended)
	case !status.Signaled() && len(child.report) == 0:
		return cli.PassThrough(status.ExitStatus()) // the child has printed its error
	}
	_ = restore() // there is no other way to restore it
	_, _ = io.WriteString(a.Streams.Out, tui.ResetTerminal)
	if len(child.report) > 0 {
		return crashed(a, child.report)
	}
	return &cli.ExitError{
		Code: 128 + int(status.Signal()),
		Err:  core.Errorf(core.KindCanceled, "ui", "", "the dashboard was ended: %s", status.Signal()),
	}
}

// crashed returns the reason for the child's crash and writes the whole report to a file.
func crashed(a *cli.App, report []byte) error {
	why, _, _ := strings.Cut(string(report), "\n")
	crash := core.Errorf(core.KindInternal, "ui", "", "the dashboard crashed: %s", why)
	paths, err := a.Paths()
	if err != nil {
		return crash
	}
	file := filepath.Join(paths.State, "ui-crash.txt")
	if os.WriteFile(file, report, 0o600) != nil {
		return crash
	}
	return crash.WithHint("the sandboxes keep running; attach %s to a bug report", file)
}

// watchedChild is this program once more.
type watchedChild struct {
	cmd    *exec.Cmd
	crash  *os.File // its crash report
	orders *os.File
	loan   loan
	// Once wait has returned: the report of a crash, and how it ended.
	report []byte
	status syscall.WaitStatus
}

func startWatched(a *cli.App) (_ *watchedChild, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	crash, crashEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	orderEnd, orders, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, crash.Close(), crashEnd.Close())
	}
	loan, err := newLoan()
	if err != nil {
		return nil, errors.Join(err, crash.Close(), crashEnd.Close(), orderEnd.Close(), orders.Close())
	}
	// It is ended by an order, so that it returns the terminal first.
	cmd := exec.CommandContext(context.Background(), program, os.Args[1:]...) //nolint:gosec // this program
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Streams.In, a.Streams.Out, a.Streams.Err
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", watcherEnv, os.Getpid()))
	cmd.ExtraFiles = []*os.File{crashEnd, orderEnd, loan.take, loan.put}
	err = cmd.Start()
	_, _ = crashEnd.Close(), orderEnd.Close() // the child has them
	if err != nil {
		return nil, errors.Join(err, crash.Close(), orders.Close(), loan.close())
	}
	return &watchedChild{cmd: cmd, crash: crash, orders: orders, loan: loan}, nil
}

// order passes a signal on as a message, not as a signal. The child may have received the signal from the terminal, and
// a second one would end it at once.
func (c *watchedChild) order(s os.Signal) {
	number := byte(cli.SignalNumber(s))   //nolint:gosec // signals are below 65
	_, _ = c.orders.Write([]byte{number}) // an ended child needs none
}

// signal sends a signal that stops or continues the child.
func (c *watchedChild) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) } // an ended child needs none

// suspend stops the child by SIGTSTP, so that it first restores the terminal. While a shell of a sandbox has the
// terminal, it does nothing.
func (c *watchedChild) suspend() {
	if !c.loan.isOut() {
		c.signal(syscall.SIGTSTP)
	}
}

// follow acts on a stop of the child by a signal. The child is still stopped, so its loan cannot change. A SIGTSTP sent
// later could arrive after the shell has ended.
func (c *watchedChild) follow(by syscall.Signal) {
	switch {
	case by == syscall.SIGSTOP && c.loan.isOut():
		c.signal(syscall.SIGCONT)
	case by == syscall.SIGSTOP: // it had no time to restore the terminal
		c.signal(syscall.SIGCONT)
		c.signal(syscall.SIGTSTP)
	case !stopJob(0): // otherwise the job continues together
		c.signal(syscall.SIGCONT)
	}
}

// wait waits for the child's end and for its report. It calls stopped each time that a signal has stopped the child.
func (c *watchedChild) wait(stopped func(by syscall.Signal)) error {
	var reading sync.WaitGroup
	reading.Go(func() {
		c.report, _ = io.ReadAll(io.LimitReader(c.crash, maxCrash)) // up to a failure
		// The child cannot end before all of its report has been read.
		_, _ = io.Copy(io.Discard, c.crash)
	})
	err := c.waitStatus(stopped)
	_ = c.crash.SetReadDeadline(time.Now().Add(crashPatience)) // a pipe has deadlines
	reading.Wait()
	_, _, _ = c.crash.Close(), c.orders.Close(), c.loan.close()
	return err
}

// waitStatus waits like exec.Cmd.Wait, which cannot report a stopped child.
func (c *watchedChild) waitStatus(stopped func(by syscall.Signal)) error {
	for {
		_, err := syscall.Wait4(c.cmd.Process.Pid, &c.status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case c.status.Stopped():
			stopped(c.status.StopSignal())
		default:
			return c.cmd.Process.Release()
		}
	}
}
