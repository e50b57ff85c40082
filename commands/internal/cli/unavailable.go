package cli

import (
	"errors"
	"fmt"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// Failures joins the errors of providers that did not answer.
func Failures(list []core.ProviderFailure) error {
	var failed []error
	for _, f := range list {
		failed = append(
			failed, &core.Error{Kind: f.Kind, Op: "list", Subject: f.Provider, Hint: f.Hint, Err: errors.New(f.Error)},
		)
	}
	return errors.Join(failed...)
}

// WarnUnavailable prints a warning for each provider that did not answer. If the user named the provider, it returns
// the failure as an error instead.
func (a *App) WarnUnavailable(list []core.ProviderFailure, requested bool) error {
	if requested {
		return Failures(list)
	}
	for _, f := range list {
		_, _ = fmt.Fprintf(a.Streams.Err, "warning: %s: %s\n", f.Provider, output.Clean(f.Error))
	}
	return nil
}
