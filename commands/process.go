package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

const (
	// patience is how many interrupts a command may ignore before sb stops waiting for it.
	patience = 3
	// signalTimeout bounds the passing on of one signal.
	signalTimeout = 2 * time.Second
	// cleanupTimeout bounds what is done after an interrupt.
	cleanupTimeout = 30 * time.Second
)

// follow passes signals and sizes on to a command until it ended. The third
// interrupt that the command ignores ends the wait, not the command.
func (a *App) follow(ctx context.Context, process core.Process) (core.Exit, error) {
	signals, release := a.Signals.take()
	defer release()

	wait, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	left := ctx.Done()
	// A signal that came before this took over has ended ctx; the command has not seen it.
	if early, ok := errors.AsType[*signalError](context.Cause(ctx)); ok {
		a.pass(wait, process, early.signal)
		left = nil
	}
	var (
		exit  core.Exit
		err   error
		ended = make(chan struct{})
		done  sync.WaitGroup
	)
	done.Go(func() {
		defer close(ended)
		exit, err = process.Wait(wait)
	})
	interrupts := 0
	for {
		select {
		case <-ended:
			done.Wait()
			if cause := context.Cause(wait); err != nil && cause != nil {
				if s, ok := errors.AsType[*signalError](cause); ok {
					return exit, &exitError{code: 128 + s.number(), err: &ignoredError{exec: process.ID()}}
				}
				return exit, cause
			}
			return exit, err
		case <-left:
			giveUp(context.Cause(ctx))
			left = nil
		case s := <-signals:
			if s == os.Interrupt || s == syscall.SIGTERM {
				if interrupts++; interrupts == patience {
					giveUp(&signalError{s})
					continue
				}
			}
			a.pass(wait, process, s)
		}
	}
}

// ignoredError says that a command ignored interrupts and was left running.
type ignoredError struct {
	exec string
	// ended says that its sandbox was terminated after that.
	ended bool
}

func (e *ignoredError) Error() string {
	if e.ended {
		return fmt.Sprintf("the command ignored %d interrupts; its sandbox was terminated", patience)
	}
	return fmt.Sprintf("the command ignored %d interrupts and still runs as %s", patience, e.exec)
}

// pass hands one signal to a command, as well as that goes.
func (a *App) pass(ctx context.Context, process core.Process, s os.Signal) {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	if isResize(s) {
		if size, ok := a.Streams.Size(); ok {
			_ = process.Resize(ctx, size) // a command without a terminal has no size
		}
		return
	}
	if err := process.Signal(ctx, guestSignal(s)); err != nil && core.KindOf(err) != core.KindNotFound {
		_, _ = fmt.Fprintf(a.Streams.Err, "sb: %s was not passed on: %s\n", s, output.Clean(err.Error()))
	}
}

// result turns a command's end into this program's: the guest's code, 124 for
// our time limits, 125 for our own failures.
func (a *App) result(ctx context.Context, svc *service.Service, sandbox string, exit core.Exit, err error) error {
	if err != nil {
		// Who could not be asked once is not asked again: a provider that hangs would be waited for twice.
		if !service.Unresolved(err) && a.outlived(ctx, svc, sandbox) {
			return &exitError{code: exitTimeout, err: core.Errorf(core.KindTimeout, "exec", sandbox, "the sandbox's lifetime is over")}
		}
		return ownFailure(err)
	}
	switch {
	case exit.TimedOut:
		return &exitError{code: exitTimeout, err: core.Errorf(core.KindTimeout, "exec", sandbox, "the command's time limit was over")}
	case exit.Reason == core.ReasonTimeout:
		return &exitError{code: exitTimeout, err: core.Errorf(core.KindTimeout, "exec", sandbox, "the sandbox's lifetime is over")}
	case exit.Message != "" && exit.Code != exitOK:
		return &exitError{code: exit.Code, err: core.Errorf(reasonKind(exit.Reason), "exec", sandbox, "%s", exit.Message)}
	}
	return passThrough(exit.Code)
}

// endOf turns a sandbox's end into this program's. The reason decides: an entry command that the end killed has a code, too.
func endOf(box core.Sandbox) error {
	kind := reasonKind(box.Reason)
	switch box.Reason {
	case core.ReasonTimeout, core.ReasonIdle:
		return &exitError{code: exitTimeout, err: core.Errorf(kind, "wait", box.Name, "the sandbox ended: %s", box.Message)}
	case core.ReasonMemory, core.ReasonLeaseEnded:
		return &exitError{code: exitKilled, err: core.Errorf(kind, "wait", box.Name, "the sandbox ended: %s", box.Message)}
	case core.ReasonStopped:
		if box.State != core.StateStopped {
			return &exitError{code: exitKilled, err: core.Errorf(kind, "wait", box.Name, "the sandbox was terminated")}
		}
	case core.ReasonCommand, core.ReasonDisk, core.ReasonLaunch, core.ReasonCrash, core.ReasonSupervisor, core.ReasonReboot:
	}
	switch {
	case box.State == core.StateFailed || box.State == core.StateLost:
		return core.Errorf(kind, "wait", box.Name, "the sandbox is %s: %s", stateText(box), box.Message)
	case box.ExitCode != nil:
		return passThrough(*box.ExitCode)
	}
	return nil
}

// reasonKind is the kind of the error that tells a reason.
func reasonKind(reason core.Reason) core.Kind {
	switch reason {
	case core.ReasonTimeout, core.ReasonIdle:
		return core.KindTimeout
	case core.ReasonMemory, core.ReasonDisk:
		return core.KindExhausted
	case core.ReasonCommand, core.ReasonStopped, core.ReasonLeaseEnded:
		return core.KindConflict
	case core.ReasonLaunch, core.ReasonCrash, core.ReasonSupervisor, core.ReasonReboot:
	}
	return core.KindUnavailable
}

// outlived says whether a sandbox is gone because its lifetime was over.
func (a *App) outlived(ctx context.Context, svc *service.Service, sandbox string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	box, err := svc.Resolve(ctx, sandbox)
	return err == nil && box.Reason == core.ReasonTimeout
}

// terminal describes the terminal that a command is to have, and puts this one
// into raw mode when there is one. The caller calls restore on every way out.
func (a *App) terminal() (size core.TerminalSize, restore func(), err error) {
	size, ok := a.Streams.Size()
	if !ok {
		size = core.TerminalSize{Rows: 24, Cols: 80}
	}
	if !a.Streams.InTTY() {
		return size, func() {}, nil
	}
	undo, err := a.Streams.MakeRaw()
	if err != nil {
		return size, nil, core.Errorf(core.KindInternal, "terminal", "", "the terminal refuses raw mode: %w", err)
	}
	return size, func() { _ = undo() }, nil
}
