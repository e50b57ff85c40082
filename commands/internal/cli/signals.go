package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals delivers the process's signals. By default they cancel the context of Main. While a guest command runs, it
// receives them.
type Signals struct {
	source chan os.Signal
	reset  func()

	mu    sync.Mutex
	taker chan os.Signal
}

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "interrupted by " + e.Signal.String() }

func (e *SignalError) number() int { return SignalNumber(e.Signal) }

// NotifySignals starts to catch the signals that end a program or that a guest command may get.
func NotifySignals() *Signals {
	s := &Signals{source: make(chan os.Signal, 16)}
	signal.Notify(s.source, caughtSignals()...)
	s.reset = func() { signal.Stop(s.source) }
	return s
}

// Attach returns a context that the first signal without a taker cancels. Its cause is a *SignalError. It catches no
// later signals, so a second interrupt ends the program at once. The caller calls stop, which waits.
func (s *Signals) Attach(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-quit:
				return
			case got := <-s.source:
				if s.deliver(got) || !EndsProgram(got) {
					continue
				}
				s.reset()
				cancel(&SignalError{got})
			}
		}
	})
	return ctx, func() {
		close(quit)
		done.Wait()
		s.reset()
		cancel(nil)
	}
}

// Raise delivers a signal as if the process had received it. If the queue is full, it drops the signal.
func (s *Signals) Raise(got os.Signal) {
	select {
	case s.source <- got:
	default:
	}
}

func (s *Signals) deliver(got os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taker == nil {
		return false
	}
	select {
	case s.taker <- got:
	default: // the queue of unhandled signals is full; one more adds no information
	}
	return true
}

// Take makes this caller the receiver of all signals until release.
func (s *Signals) Take() (signals <-chan os.Signal, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taker = make(chan os.Signal, 16)
	return s.taker, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taker = nil
	}
}

// EndsProgram reports whether a signal ends sb while no guest command takes signals.
func EndsProgram(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// SignalNumber returns the number of s, or 0.
func SignalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// SignalsFrom makes Signals that receive from source; for tests.
func SignalsFrom(source chan os.Signal) *Signals {
	return &Signals{source: source, reset: func() {}}
}
