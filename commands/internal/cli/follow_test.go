package cli

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
)

// testProcess is a command that ends on request and records the signals and sizes that it receives.
type testProcess struct {
	end chan core.Exit
	// onSignal runs for each signal, before Signal returns.
	onSignal func(int)

	mu      sync.Mutex
	signals []int
	sizes   []core.TerminalSize
}

func (p *testProcess) ID() string   { return "1" }
func (p *testProcess) Close() error { return nil }

func (p *testProcess) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case exit := <-p.end:
		return exit, nil
	case <-ctx.Done():
		return core.Exit{}, ctx.Err()
	}
}

func (p *testProcess) Signal(_ context.Context, signal int) error {
	p.mu.Lock()
	p.signals = append(p.signals, signal)
	p.mu.Unlock()
	if p.onSignal != nil {
		p.onSignal(signal)
	}
	return nil
}

func (p *testProcess) Resize(_ context.Context, size core.TerminalSize) error {
	p.mu.Lock()
	p.sizes = append(p.sizes, size)
	p.mu.Unlock()
	return nil
}

// following starts a follow of a process and waits until it takes the signals.
func following(t *testing.T, process *testProcess) (send func(os.Signal), result func() (core.Exit, error)) {
	t.Helper()
	source := make(chan os.Signal)
	streams := iostreams.NewTest().SetTTY(100)
	app := &App{Streams: streams.Streams, Signals: SignalsFrom(source)}
	ctx, stop := app.Signals.Attach(t.Context())
	var (
		exit core.Exit
		err  error
		done sync.WaitGroup
	)
	done.Go(func() { exit, err = app.Follow(ctx, process) })
	for limit, taken := time.Now().Add(time.Minute), false; !taken; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nothing takes the signals")
		}
		app.Signals.mu.Lock()
		taken = app.Signals.taker != nil
		app.Signals.mu.Unlock()
	}
	t.Cleanup(stop)
	send = func(s os.Signal) {
		t.Helper()
		select {
		case source <- s:
		case <-time.After(time.Minute):
			t.Fatalf("the program does not take %s", s)
		}
	}
	return send, func() (core.Exit, error) { done.Wait(); return exit, err }
}

func TestSignalsGoToTheCommand(t *testing.T) {
	process := &testProcess{end: make(chan core.Exit, 1)}
	process.onSignal = func(n int) {
		if n == int(syscall.SIGHUP) {
			process.end <- core.Exit{Code: 129, Signal: n}
		}
	}
	send, result := following(t, process)
	send(os.Interrupt)
	send(syscall.SIGTERM)
	send(syscall.SIGUSR1)
	send(syscall.SIGWINCH)
	send(syscall.SIGHUP)
	exit, err := result()
	if err != nil || exit.Code != 129 {
		t.Errorf("exit %+v, error %v; want code 129", exit, err)
	}
	if diff := cmp.Diff([]int{2, 15, 10, 1}, process.signals); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]core.TerminalSize{{Rows: 24, Cols: 100}}, process.sizes); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

func TestThirdInterruptEndsTheWait(t *testing.T) {
	process := &testProcess{end: make(chan core.Exit)}
	send, result := following(t, process)
	for range patience {
		send(os.Interrupt)
	}
	_, err := result()
	if code := CodeOf(t.Context(), err); code != 130 {
		t.Errorf("exit code %d, want 130 (error %v)", code, err)
	}
	if len(process.signals) != patience-1 {
		t.Errorf("the command got %d interrupts, want %d", len(process.signals), patience-1)
	}
}

// A signal that ended the context before the command was followed still reaches it.
func TestEarlySignalReachesTheCommand(t *testing.T) {
	process := &testProcess{end: make(chan core.Exit, 1)}
	process.onSignal = func(n int) { process.end <- core.Exit{Code: 128 + n, Signal: n} }
	streams := iostreams.NewTest()
	app := &App{Streams: streams.Streams, Signals: SignalsFrom(make(chan os.Signal))}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&SignalError{syscall.SIGTERM})
	exit, err := app.Follow(ctx, process)
	if err != nil || exit.Code != 143 {
		t.Errorf("exit %+v, error %v; want code 143", exit, err)
	}
}

func TestUnhandledSignalCancels(t *testing.T) {
	source := make(chan os.Signal)
	signals := SignalsFrom(source)
	ctx, stop := signals.Attach(t.Context())
	defer stop()
	source <- syscall.SIGTERM
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the context has not ended")
	}
	if code := CodeOf(ctx, ctx.Err()); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}
