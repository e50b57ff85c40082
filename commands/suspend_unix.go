//go:build unix

package commands

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui"
)

// A dashboard is two processes of one job. Whichever of them is stopped, and however, the other
// follows, and the terminal is given back before; the shell's fg brings both back. Somebody who
// stops a process from outside may stop:
//
//   - the child with SIGTSTP, or with ctrl+z: it gives the terminal back and stops itself;
//   - the parent with SIGTSTP: it passes it on;
//   - the child with SIGSTOP: the parent sees it, and gives the terminal back, which the child finds when it goes on;
//   - the parent with SIGSTOP: the child sees that the terminal is another's now.
//
// The parent stops the whole job. What stops is SIGTTIN: it does so in a program that catches SIGTSTP, which
// Go cannot undo, and where no shell would bring the job back the system ignores it, so that the dashboard goes on.
const stopSignal = syscall.SIGTTIN

const (
	// stopPatience is how long a process goes on that is not stopped by what stops it.
	stopPatience = 300 * time.Millisecond
	// lookPause is the time between two looks at whose the terminal is.
	lookPause = 250 * time.Millisecond
	// asideAge is how old a wish to be stopped may be: a shell of a sandbox has the terminal longer.
	asideAge = time.Second
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
func (a *App) terminalOf() (int, bool) {
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
	signals chan os.Signal
	asides  chan func() error

	mu sync.Mutex
	// lent says that a shell or an editor has the terminal.
	lent bool
	// stopping says that it stops itself; busy is when it was last continued after that, or the dashboard was asked for something.
	stopping bool
	busy     time.Time
	// before are the terminal's modes before the dashboard, and ours those that it gave it; nil is not known.
	before, ours *term.State
}

// newSuspender makes one for a terminal that the dashboard does not have yet.
func newSuspender(tty int) *suspender {
	before, _ := term.GetState(tty) // without it nothing is compared
	return &suspender{tty: tty, signals: make(chan os.Signal, 4), asides: make(chan func() error), before: before}
}

// equip makes a dashboard that can be stopped.
func (s *suspender) equip(ctx context.Context, options *tui.Options) {
	shell, edit := options.Shell, options.Edit
	options.Shell = func(ctx context.Context, sandbox string, command []string) error {
		s.lend(true)
		defer s.lend(false)
		return shell(ctx, sandbox, command)
	}
	options.Edit = func(ctx context.Context, path string) error {
		s.lend(true)
		defer s.lend(false)
		return edit(ctx, path)
	}
	options.Suspend = func() error { return s.stop(ctx) }
	options.Asides = s.asides
}

// run waits for signals that stop this process, and looks whose the terminal is, until ctx ends.
func (s *suspender) run(ctx context.Context) {
	signal.Notify(s.signals, syscall.SIGTSTP)
	defer signal.Stop(s.signals)
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.signals:
			if s.away() {
				_ = s.stop(ctx) // such as an editor that is suspended, with its whole job
			} else {
				s.ask(func() error { return s.stop(ctx) })
			}
		case <-look.C:
			modes, err := term.GetState(s.tty)
			switch {
			case err != nil || s.before == nil || s.own() || s.away():
			case !inFront(s.tty):
				signal.Ignore(syscall.SIGTTOU) // to give the terminal back from here
				s.ask(func() error { return s.leave(ctx, modes) })
			case *modes != *s.before:
				s.give(modes)
			default:
				s.ask(func() error { return nil }) // it was given back while this process was stopped
			}
		}
	}
}

// ask hands something to the dashboard, which takes it once it has the terminal. What it takes too late is forgotten.
func (s *suspender) ask(run func() error) {
	asked := time.Now()
	timer := time.NewTimer(asideAge)
	defer timer.Stop()
	select {
	case s.asides <- func() error {
		if time.Since(asked) > asideAge {
			return nil
		}
		return run()
	}:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy = asked
	case <-timer.C:
	}
}

// own says whether the dashboard gives the terminal back now, or takes it again, by itself.
func (s *suspender) own() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping || time.Since(s.busy) < asideAge
}

// give notes the modes that the dashboard gave the terminal.
func (s *suspender) give(modes *term.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ours = modes
}

func (s *suspender) given() *term.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ours
}

// lend notes whether something else has the terminal for itself.
func (s *suspender) lend(lent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent = lent
}

// away says whether something else has the terminal for itself, so that the dashboard does nothing with it.
func (s *suspender) away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lent
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
			return core.Errorf(core.KindUnsupported, "suspend", "", "nobody would bring it back").WithHint("it was not started by a shell that can stop and continue it")
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

// forget drops the signals that came before it was stopped: a key of an editor stops both processes at once.
func (s *suspender) forget() {
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
	if ours := s.given(); ours != nil && *found != *ours {
		_ = term.Restore(s.tty, found) // it is somebody else's terminal
	}
	return s.stop(ctx)
}
