package providertest

import (
	"context"
	"testing"
	"time"
)

// patience bounds each wait of a test: far longer than what is waited for takes on a machine that is busy with other things.
const patience = 2 * time.Minute

// Patient returns the test's context with a bound, for one wait.
func Patient(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}
