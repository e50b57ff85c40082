package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// SelectFlags select the sandboxes that a command works on, instead of their names.
type SelectFlags struct {
	All      bool
	Labels   []string
	App      string
	Provider string
	// AllOwners includes the sandboxes of other owners.
	AllOwners bool
}

// Register adds the flags that select sandboxes, --all included.
func (f *SelectFlags) Register(app *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.All, "all", "a", false, "all of your sandboxes")
	flags.BoolVar(&f.AllOwners, "all-owners", false, AllOwnersUsage)
	f.RegisterFilters(app, cmd)
}

// AllOwnersUsage is the help of --all-owners.
const AllOwnersUsage = "include those of other users and state directories"

// RegisterFilters adds the flags that filter sandboxes.
func (f *SelectFlags) RegisterFilters(app *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(
		&f.Labels, "label", "l", nil, "sandboxes with the label `KEY[=VALUE]` (repeatable: all must match)",
	)
	flags.StringVar(&f.App, "app", "", "sandboxes of the app `NAME`")
	flags.StringVar(&f.Provider, "provider", "", "sandboxes of the provider `NAME`")
	Complete(cmd, "app", app.CompleteApps)
	Complete(cmd, "provider", app.CompleteProviders)
}

// Given reports whether a flag selects sandboxes.
func (f *SelectFlags) Given() bool {
	return f.All || len(f.Labels) > 0 || f.App != "" || f.Provider != ""
}

// Check requires either names or filters, and not both.
func (f *SelectFlags) Check(cmd *cobra.Command, refs []string) error {
	switch {
	case len(refs) == 0 && !f.Given():
		return Usagef(cmd, "%s needs SANDBOX, or one of --all, --label, --app and --provider", cmd.CommandPath())
	case len(refs) > 0 && f.Given():
		return Usagef(cmd, "%s takes sandboxes, or --all, --label, --app and --provider, not both", cmd.CommandPath())
	case len(refs) > 0 && f.AllOwners:
		return Usagef(
			cmd, "--all-owners works with --all, --label, --app and --provider; a named sandbox needs no --all-owners",
		)
	}
	return nil
}

// Filter returns the flags as a filter of core.
func (f *SelectFlags) Filter() (core.ListFilter, error) {
	filter := core.ListFilter{App: f.App, Provider: f.Provider}
	for _, label := range f.Labels {
		key, value, _ := strings.Cut(label, "=")
		if key == "" {
			return filter, core.Errorf(core.KindUsage, "parse", label, "--label %s: not a label", label).
				WithHint("write --label KEY or --label KEY=VALUE")
		}
		if filter.Labels == nil {
			filter.Labels = map[string]string{}
		}
		filter.Labels[key] = value
	}
	return filter, nil
}

// unresolvedError is a typed reference that names no sandbox.
type unresolvedError struct {
	ref string
	err error
}

func (e *unresolvedError) Error() string { return e.err.Error() }
func (e *unresolvedError) Unwrap() error { return e.err }

// TellOthers prints the number of sandboxes of other owners that the command skipped.
func TellOthers(app *App, others int) {
	if others > 0 {
		_, _ = fmt.Fprintf(
			app.Streams.Err, "%s of other owners left alone; --all-owners includes them\n",
			output.Count(others, "sandbox", "sandboxes"),
		)
	}
}

// Resolve finds the sandboxes. A reference that fails is in the joined error as an *unresolvedError; the others are
// returned all the same.
func (f *SelectFlags) Resolve(
	ctx context.Context, app *App, svc *service.Service, refs []string,
) ([]core.Sandbox, error) {
	if len(refs) == 0 {
		filter, err := f.Filter()
		if err != nil {
			return nil, err
		}
		filter.All = true
		listing, err := svc.Sandboxes.List(ctx, filter)
		err = errors.Join(err, Failures(listing.Failures))
		if f.AllOwners {
			return listing.Sandboxes, err
		}
		mine, others, ownerErr := svc.Sandboxes.Mine(listing.Sandboxes)
		TellOthers(app, len(others))
		return mine, errors.Join(err, ownerErr)
	}
	var found []core.Sandbox
	var failed []error
	seen := map[string]bool{}
	for _, ref := range refs {
		box, err := svc.Sandboxes.Resolve(ctx, ref)
		switch {
		case err != nil:
			failed = append(failed, &unresolvedError{ref, err})
		case !seen[box.ID]:
			seen[box.ID] = true
			found = append(found, box)
		}
	}
	return found, errors.Join(failed...)
}
