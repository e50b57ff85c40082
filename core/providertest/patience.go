package providertest

import (
	"context"
	"testing"
	"time"
)

// patience bounds each wait of a test. It is far longer than any expected wait on a busy machine.
const patience = 2 * time.Minute

// Patient returns the test's context with a bound, for one wait.
func Patient(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// Receive returns the next value of a channel, or the zero value once the channel is closed.
// It fails the test when neither happens in time. Only the test's own goroutine may call it.
func Receive[T any](tb testing.TB, from <-chan T) T {
	tb.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case value := <-from:
		return value
	case <-timer.C:
		tb.Fatalf("the channel delivered nothing within %s", patience)
		panic("unreachable")
	}
}
