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
)

const (
	// patience is how many interrupts a command may ignore before sb stops waiting for it.
	patience = 3
	// signalTimeout bounds the passing on of one signal.
	signalTimeout = 2 * time.Second
	// CleanupTimeout bounds the cleanup after an interrupt.
	CleanupTimeout = 30 * time.Second
)

// Follow passes signals and terminal sizes on to a command until its end. The third interrupt that the command ignores
// ends the wait, not the command.
func (a *App) Follow(ctx context.Context, process core.Process) (core.Exit, error) {
	signals, release := a.Signals.Take()
	defer release()

	wait, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	left := ctx.Done()
	// An earlier signal has ended ctx; the command has not received it.
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

// IgnoredError is returned when a command ignored interrupts and still runs.
type IgnoredError struct {
	exec string
	// Ended means that its sandbox was terminated afterwards.
	Ended bool
}

func (e *IgnoredError) Error() string {
	if e.Ended {
		return fmt.Sprintf("the command ignored %d interrupts; its sandbox was terminated", patience)
	}
	return fmt.Sprintf("the command ignored %d interrupts and still runs as %s", patience, e.exec)
}

// pass sends one signal to a command. It prints a failure and continues.
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
		_, _ = fmt.Fprintf(a.Streams.Err, "sb: %s was not forwarded: %s\n", s, output.Clean(err.Error()))
	}
}
