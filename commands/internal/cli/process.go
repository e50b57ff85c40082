package cli

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
	// CleanupTimeout bounds what is done after an interrupt.
	CleanupTimeout = 30 * time.Second
)

// Follow passes signals and sizes on to a command until it ended. The third
// interrupt that the command ignores ends the wait, not the command.
func (a *App) Follow(ctx context.Context, process core.Process) (core.Exit, error) {
	signals, release := a.Signals.Take()
	defer release()

	wait, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	left := ctx.Done()
	// A signal that came before this took over has ended ctx; the command has not seen it.
	if early, ok := errors.AsType[*SignalError](context.Cause(ctx)); ok {
		a.pass(wait, process, early.Signal)
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
				if s, ok := errors.AsType[*SignalError](cause); ok {
					return exit, &ExitError{Code: 128 + s.number(), Err: &IgnoredError{exec: process.ID()}}
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
					giveUp(&SignalError{s})
					continue
				}
			}
			a.pass(wait, process, s)
		}
	}
}

// IgnoredError says that a command ignored interrupts and was left running.
type IgnoredError struct {
	exec string
	// ended says that its sandbox was terminated after that.
	Ended bool
}

func (e *IgnoredError) Error() string {
	if e.Ended {
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
	if err := process.Signal(ctx, guestSignal(s)); err != nil && !errors.Is(err, core.KindNotFound) {
		_, _ = fmt.Fprintf(a.Streams.Err, "sb: %s was not passed on: %s\n", s, output.Clean(err.Error()))
	}
}

// Result turns a command's end into this program's: the guest's code, 124 for
// our time limits, 125 for our own failures.
func (a *App) Result(ctx context.Context, svc *service.Service, sandbox string, exit core.Exit, err error) error {
	if err != nil {
		// Who could not be asked once is not asked again: a provider that hangs would be waited for twice.
		if !service.Unresolved(err) && a.outlived(ctx, svc, sandbox) {
			return &ExitError{
				Code: ExitTimeout, Err: core.Errorf(core.KindTimeout, "exec", sandbox, "the sandbox's lifetime is over"),
			}
		}
		return OwnFailure(err)
	}
	switch {
	case exit.TimedOut:
		return &ExitError{
			Code: ExitTimeout, Err: core.Errorf(core.KindTimeout, "exec", sandbox, "the command's time limit was over"),
		}
	case exit.Reason == core.ReasonTimeout:
		return &ExitError{
			Code: ExitTimeout, Err: core.Errorf(core.KindTimeout, "exec", sandbox, "the sandbox's lifetime is over"),
		}
	case exit.Message != "" && exit.Code != ExitOK:
		return &ExitError{Code: exit.Code, Err: core.Errorf(reasonKind(exit.Reason), "exec", sandbox, "%s", exit.Message)}
	}
	return PassThrough(exit.Code)
}

// EndOf turns a sandbox's end into this program's. The reason decides: an entry command that the end killed has a code,
// too.
func EndOf(box core.Sandbox) error {
	kind := reasonKind(box.Reason)
	switch box.Reason {
	case core.ReasonTimeout, core.ReasonIdle:
		return &ExitError{Code: ExitTimeout, Err: core.Errorf(kind, "wait", box.Name, "the sandbox ended: %s", box.Message)}
	case core.ReasonMemory, core.ReasonLeaseEnded:
		return &ExitError{Code: exitKilled, Err: core.Errorf(kind, "wait", box.Name, "the sandbox ended: %s", box.Message)}
	case core.ReasonStopped:
		if box.State != core.StateStopped {
			return &ExitError{Code: exitKilled, Err: core.Errorf(kind, "wait", box.Name, "the sandbox was terminated")}
		}
	case core.ReasonCommand, core.ReasonDisk, core.ReasonLaunch, core.ReasonCrash, core.ReasonSupervisor,
		core.ReasonReboot:
	}
	switch {
	case box.State == core.StateFailed || box.State == core.StateLost:
		return core.Errorf(kind, "wait", box.Name, "the sandbox is %s: %s", StateText(box), box.Message)
	case box.ExitCode != nil:
		return PassThrough(*box.ExitCode)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CleanupTimeout)
	defer cancel()
	box, err := svc.Sandboxes.Resolve(ctx, sandbox)
	return err == nil && box.Reason == core.ReasonTimeout
}

// Terminal describes the terminal that a command is to have, and puts this one
// into raw mode when there is one. The caller calls restore on every way out.
func (a *App) Terminal() (size core.TerminalSize, restore func(), err error) {
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
