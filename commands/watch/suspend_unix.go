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

// A dashboard is two processes of one job. Whichever of them is stopped, and however, the other
// follows, and the terminal is given back before; the shell's fg brings both back. Somebody who
// stops a process from outside may stop:
//
//   - the child with SIGTSTP, or with ctrl+z: it gives the terminal back and stops itself;
//   - the parent with SIGTSTP: it passes it on;
//   - the child with SIGSTOP: the parent sees it, continues it, and sends SIGTSTP instead;
//   - the parent with SIGSTOP: the child sees that the terminal is another's now.
//
// While a shell of a sandbox is open only the last stops anything, and ends the shell: what runs the sandbox reads the
// terminal itself, and would go on. The parent stops the whole job. What stops is SIGTTIN: it does so in a program that
// catches SIGTSTP, which Go cannot undo, and where no shell would bring the job back the system ignores it, so that the
// dashboard keeps running.
const stopSignal = syscall.SIGTTIN

const (
	// stopPatience is how long a process keeps running if its stop signal does not stop it.
	stopPatience = 300 * time.Millisecond
	// lookPause is the time between two looks at whose the terminal is.
	lookPause = 250 * time.Millisecond
	// settling is how long the dashboard takes to give the terminal back and to take it again, a little more than
	// what tui leaves between the two.
	settling = 350 * time.Millisecond
	// askPatience is how long the dashboard has to take what is asked of it.
	askPatience = time.Second
)

// stopJob stops the process pid, which is this one, or with 0 its whole job, and returns when it is
// continued; false says that it was never stopped.
func stopJob(pid int) (stopped bool) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(pid, stopSignal) != nil {
		return false
	}
	for _, patience := range []time.Duration{stopPatience, stopPatience / 6} { // the clock runs while it is stopped
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

// inFront says whether the terminal is this job's.
func inFront(tty int) bool {
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// suspender stops the process that draws, and brings it back.
type suspender struct {
	tty     int
	loan    loan
	signals chan os.Signal
	asides  chan func() error
	// again says that the dashboard is to take the terminal once more; it is run's.
	again bool

	mu sync.Mutex
	// editing says that an editor has the terminal; leaveShell ends the shell that has it, nil is none.
	editing    bool
	leaveShell func()
	// stopping says that it stops itself; busy is when it was last continued after that, or the dashboard was asked for
	// something.
	stopping bool
	busy     time.Time
	// ours are the modes that the dashboard gave the terminal; nil is not known.
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

// run waits for signals that stop or continue this process, and looks whose the terminal is, until ctx ends.
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

// deafen drops the signals until the function that it returns is called, those included that this process has got and
// not handled by then. The parent sends none meanwhile.
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

// settleSignals returns when the signals that this process has got are in their channels.
func settleSignals() {
	none := make(chan os.Signal, 1)
	signal.Notify(none, syscall.SIGTSTP)
	signal.Stop(none) // its contract is to wait for that
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
		s.again = true // who continued it may have drawn on the terminal
		s.look(ctx)
	}
}

// look leaves a terminal that somebody else has by now.
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

// ask hands something to the dashboard, which takes it once it has the terminal.
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

// own reports whether the dashboard itself now returns the terminal, or takes it again.
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

// setHolder notes which other program has the terminal.
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

// stop stops this process, which has given the terminal back, until it is in front again. The parent follows.
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
		// In the background there is nothing to do but to end.
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

// forget drops the signals that belong to a stop that is over: a key of an editor stops both processes at once.
func (s *suspender) forget() {
	time.Sleep(settling / 10) // until those of now are delivered
	for {
		select {
		case <-s.signals:
		default:
			return
		}
	}
}

// leave follows a job whose terminal somebody else has by now. found are the modes that it had then: a shell
// that has set its own keeps them, one that has not gets those of before the dashboard.
func (s *suspender) leave(ctx context.Context, found *term.State) error {
	if inFront(s.tty) {
		return nil
	}
	s.mu.Lock()
	ours := s.ours
	s.mu.Unlock()
	if ours != nil && *found != *ours {
		_ = term.Restore(s.tty, found) // it is somebody else's terminal
	}
	return s.stop(ctx)
}
