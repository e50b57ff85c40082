package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// SelectFlags choose the sandboxes that a command works on, in place of naming them.
type SelectFlags struct {
	All      bool
	Labels   []string
	App      string
	Provider string
}

func (f *SelectFlags) register(app *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.All, "all", "a", false, "all sandboxes")
	f.registerFilters(app, cmd)
}

func (f *SelectFlags) registerFilters(app *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.Labels, "label", "l", nil, "sandboxes with the label `KEY[=VALUE]` (repeatable: all must match)")
	flags.StringVar(&f.App, "app", "", "sandboxes of the app `NAME`")
	flags.StringVar(&f.Provider, "provider", "", "sandboxes of the provider `NAME`")
	complete(cmd, "app", app.completeApps)
	complete(cmd, "provider", app.completeProviders)
}

func (f *SelectFlags) given() bool {
	return f.All || len(f.Labels) > 0 || f.App != "" || f.Provider != ""
}

// check refuses both names and filters, and neither.
func (f *SelectFlags) check(cmd *cobra.Command, refs []string) error {
	switch {
	case len(refs) == 0 && !f.given():
		return usagef(cmd, "%s needs SANDBOX, or one of --all, --label, --app and --provider", cmd.CommandPath())
	case len(refs) > 0 && f.given():
		return usagef(cmd, "%s takes sandboxes, or --all, --label, --app and --provider, not both", cmd.CommandPath())
	}
	return nil
}

// filter turns the flags into the core's filter.
func (f *SelectFlags) filter() (core.ListFilter, error) {
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

// failures joins what providers failed to say.
func failures(list []core.ProviderFailure) error {
	var failed []error
	for _, f := range list {
		failed = append(failed, &core.Error{Kind: f.Kind, Op: "list", Subject: f.Provider, Hint: f.Hint, Err: errors.New(f.Error)})
	}
	return errors.Join(failed...)
}

// resolve finds the sandboxes. A reference that fails is in the joined error; the others are returned all the same.
func (f *SelectFlags) resolve(ctx context.Context, service *core.Service, refs []string) ([]core.Sandbox, error) {
	if len(refs) == 0 {
		filter, err := f.filter()
		if err != nil {
			return nil, err
		}
		filter.All = true
		listing, err := service.List(ctx, filter)
		return listing.Sandboxes, errors.Join(err, failures(listing.Failures))
	}
	var found []core.Sandbox
	var failed []error
	seen := map[string]bool{}
	for _, ref := range refs {
		box, err := service.Resolve(ctx, ref)
		switch {
		case err != nil:
			failed = append(failed, err)
		case !seen[box.ID]:
			seen[box.ID] = true
			found = append(found, box)
		}
	}
	return found, errors.Join(failed...)
}

// outcome is one line of the JSON of a command on several things; what has no id but its name has none here.
type outcome struct {
	ID     string `json:"id,omitempty"`
	Name   string `json:"name"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
	// ExitCode is there where it was told.
	ExitCode *int `json:"exit_code,omitempty"`
}

// forEach does work on all sandboxes, a few at a time, and reports each in their
// order: its id on stdout, or the whole as JSON. The error joins what failed.
func forEach(ctx context.Context, app *App, boxes []core.Sandbox, result string, asJSON bool, work func(context.Context, core.Sandbox) error) error {
	return forEachCode(ctx, app, boxes, result, asJSON, func(ctx context.Context, box core.Sandbox) (*int, error) { return nil, work(ctx, box) })
}

// forEachCode is forEach for work that yields exit codes. They are in the JSON, and a person at a terminal is told them.
func forEachCode(ctx context.Context, app *App, boxes []core.Sandbox, result string, asJSON bool, work func(context.Context, core.Sandbox) (*int, error)) error {
	const atOnce = 8
	codes := make([]*int, len(boxes))
	failed := make([]error, len(boxes))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, box := range boxes {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			code, err := work(ctx, box)
			codes[i], failed[i] = code, core.Wrap("", box.Name, err)
		})
	}
	all.Wait()
	outcomes := make([]outcome, len(boxes))
	for i, box := range boxes {
		outcomes[i] = outcome{ID: box.ID, Name: box.Name, Result: result, ExitCode: codes[i]}
		if failed[i] != nil {
			outcomes[i].Result, outcomes[i].Error = core.KindOf(failed[i]).String(), failed[i].Error()
			continue
		}
		if !asJSON {
			if _, err := fmt.Fprintln(app.Streams.Out, box.ID); err != nil {
				return err
			}
		}
		if code := codes[i]; code != nil && !asJSON && app.Streams.ErrTTY() {
			_, _ = fmt.Fprintf(app.Streams.Err, "%s: exit code %d\n", box.Name, *code)
		}
	}
	if asJSON {
		if err := output.List(app.Streams.Out, outcomes); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// confirm asks a person on the terminal. Without one it refuses and names the flag that answers.
func confirm(app *App, question, flag string) error {
	if !app.Streams.CanPrompt() {
		return core.Errorf(core.KindUsage, "confirm", "", "%s Nobody is at a terminal to answer", question).
			WithHint("add %s to do it without asking", flag)
	}
	if _, err := fmt.Fprintf(app.Streams.Err, "%s [y/N] ", question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(app.Streams.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return core.Errorf(core.KindCanceled, "confirm", "", "nothing was done")
}
