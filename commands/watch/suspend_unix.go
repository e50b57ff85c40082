//go:build unix

package watch

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui"
)

// A dashboard is two processes of one job. If a signal stops one of them, the other stops, too. The terminal is
// restored first; the shell's fg continues both. Another process may stop:
//
//   - the child with SIGTSTP, or with ctrl+z: it restores the terminal and stops itself;
//   - the parent with SIGTSTP: it sends SIGTSTP to the child;
//   - the child with SIGSTOP: the parent sees it, continues it, and sends SIGTSTP instead;
//   - the parent with SIGSTOP: the child sees that another job has the terminal.
//
// While a shell of a sandbox is open, only the last of these has an effect, and it ends the shell. The client of that
// shell reads the terminal itself and would continue to.
//
// The parent stops the whole job, with SIGTTIN. This signal stops a program that catches SIGTSTP, which Go cannot undo.
// If no shell would continue the job, the system ignores SIGTTIN and the dashboard keeps running.
const stopSignal = syscall.SIGTTIN

const (
	// stopPatience is how long a process keeps running if its stop signal does not stop it.
	stopPatience = 300 * time.Millisecond
	// lookPause is the time between two checks of which job has the terminal.
	lookPause = 250 * time.Millisecond
	// settling is the time that the dashboard takes to restore the terminal and to take it again. It is a little more than
	// the pause that tui makes between the two.
	settling = 350 * time.Millisecond
	// askPatience is how long the dashboard may take to accept a request.
	askPatience = time.Second
)

// stopJob stops the process pid, which is this one, or the whole job if pid is 0. It returns after the job continues,
// or false if it never stopped.
func stopJob(pid int) (stopped bool) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(pid, stopSignal) != nil {
		return false
	}
	for _, patience := range []time.Duration{stopPatience, stopPatience / 6} { // the clock runs during a stop
		timer := time.NewTimer(patience)
		select {
		case <-continued:
			timer.Stop()
			return true
		case <-timer.C:
		}
	}
	return false
}

// terminalOf is the descriptor of this program's terminal.
func terminalOf(a *cli.App) (int, bool) {
	f, ok := a.Streams.In.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	return int(f.Fd()), true
}

// inFront reports whether this job has the terminal.
func inFront(tty int) bool {
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// suspender stops and resumes the process that draws.
type suspender struct {
	tty     int
	loan    loan
	signals chan os.Signal
	asides  chan func() error
	// again is true if the dashboard has to take the terminal once more. Only run uses it.
	again bool

	mu sync.Mutex
	// editing is true while an editor has the terminal. leaveShell ends the shell that has it, or is nil without one.
	editing    bool
	leaveShell func()
	// stopping is true while the dashboard stops itself. busy is the time of its last continuation or of the last request
	// to it.
	stopping bool
	busy     time.Time
	// ours are the terminal modes that the dashboard set, or nil before that.
	ours *term.State
}

func newSuspender(tty int, loan loan) *suspender {
	return &suspender{tty: tty, loan: loan, signals: make(chan os.Signal, 4), asides: make(chan func() error)}
}

// equip makes a dashboard that can be stopped.
func (s *suspender) equip(ctx context.Context, options *tui.Options) {
	shell, edit := options.Shell, options.Edit
	options.Shell = func(ctx context.Context, sandbox string, command []string) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer s.deafen()()
		s.setHolder(false, func() { cancel(core.Errorf(core.KindCanceled, "shell", "", "it has lost the terminal")) })
		defer s.setHolder(false, nil)
		return shell(ctx, sandbox, command)
	}
	options.Edit = func(ctx context.Context, path string) error {
		s.setHolder(true, nil)
		defer s.setHolder(false, nil)
		return edit(ctx, path)
	}
	options.Suspend = func() error { return s.stop(ctx) }
	options.Asides = s.asides
}

// run handles the signals that stop or continue this process, and checks which job has the terminal, until ctx ends.
func (s *suspender) run(ctx context.Context) {
	s.watchSignals()
	defer signal.Stop(s.signals)
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case got := <-s.signals:
			s.handle(ctx, got)
		case <-look.C:
			s.look(ctx)
		}
	}
}

func (s *suspender) watchSignals() { signal.Notify(s.signals, syscall.SIGTSTP, syscall.SIGCONT) }

// deafen drops the signals until the caller calls undo. That includes signals that this process received and did not
// handle by then. In between, the parent sends none.
func (s *suspender) deafen() (undo func()) {
	dropped := make(chan os.Signal, 1)
	s.loan.begin()
	signal.Notify(dropped, syscall.SIGTSTP, syscall.SIGCONT) // never without a channel: SIGTSTP would stop this process
	signal.Stop(s.signals)
	return func() {
		settleSignals()
		s.watchSignals()
		signal.Stop(dropped)
		s.loan.end()
	}
}

// settleSignals returns after all received signals are in their channels.
func settleSignals() {
	none := make(chan os.Signal, 1)
	signal.Notify(none, syscall.SIGTSTP)
	signal.Stop(none) // Stop waits for that by contract
}

// handle acts on a signal.
func (s *suspender) handle(ctx context.Context, got os.Signal) {
	editing, leaveShell := s.holder()
	switch {
	case leaveShell != nil:
	case got == syscall.SIGTSTP && editing:
		_ = s.stop(ctx) // an editor that is suspended stops its whole job
	case got == syscall.SIGTSTP:
		s.ask(func() error { return s.stop(ctx) })
	case !editing && !s.isStopping():
		s.again = true // the program that continued it may have drawn on the terminal
		s.look(ctx)
	}
}

// look makes the dashboard leave a terminal that another job has taken.
func (s *suspender) look(ctx context.Context) {
	modes, err := term.GetState(s.tty)
	editing, leaveShell := s.holder()
	switch {
	case err != nil || editing || s.own():
	case !inFront(s.tty):
		signal.Ignore(syscall.SIGTTOU) // to give the terminal back from here
		if leaveShell != nil {
			leaveShell()
			return
		}
		s.ask(func() error { return s.leave(ctx, modes) })
	case leaveShell == nil && s.again:
		s.again = false
		s.ask(func() error { return nil })
	case leaveShell == nil:
		s.give(modes)
	}
}

// ask passes run to the dashboard, which runs it once it has the terminal.
func (s *suspender) ask(run func() error) {
	timer := time.NewTimer(askPatience)
	defer timer.Stop()
	select {
	case s.asides <- run:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy = time.Now()
	case <-timer.C:
	}
}

// own reports whether the dashboard itself is restoring the terminal or taking it again.
func (s *suspender) own() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping || time.Since(s.busy) < settling
}

func (s *suspender) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// give notes the modes that the dashboard gave the terminal.
func (s *suspender) give(modes *term.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ours = modes
}

// setHolder records which other program has the terminal.
func (s *suspender) setHolder(editing bool, leaveShell func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.editing, s.leaveShell = editing, leaveShell
}

func (s *suspender) holder() (editing bool, leaveShell func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.editing, s.leaveShell
}

// stop stops this process until it is in front again. The process has restored the terminal before. The parent follows.
func (s *suspender) stop(ctx context.Context) error {
	set := func(stopping bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopping, s.busy = stopping, time.Now()
	}
	set(true)
	defer set(false)
	defer s.forget()
	for {
		if !stopJob(os.Getpid()) {
			return core.Errorf(core.KindUnsupported, "suspend", "", "cannot suspend: no shell would resume it").
				WithHint("it was not started by a shell with job control")
		}
		if inFront(s.tty) {
			return nil
		}
		// In the background the dashboard can only end; otherwise it stops again.
		timer := time.NewTimer(stopPatience)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			signal.Ignore(syscall.SIGTTOU)
			return nil
		}
	}
}

// forget drops the signals of a finished stop. A key in an editor stops both processes at once.
func (s *suspender) forget() {
	time.Sleep(settling / 10) // until the current signals are delivered
	for {
		select {
		case <-s.signals:
		default:
			return
		}
	}
}

// leave follows a job that lost the terminal. found are the modes of the terminal at that time. A shell that set its
// own modes keeps them; otherwise the modes from before the dashboard return.
func (s *suspender) leave(ctx context.Context, found *term.State) error {
	if inFront(s.tty) {
		return nil
	}
	s.mu.Lock()
	ours := s.ours
	s.mu.Unlock()
	if ours != nil && *found != *ours {
		_ = term.Restore(s.tty, found) // another job has the terminal
	}
	return s.stop(ctx)
}
