package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// Outcome is one element of the JSON of a command on several items. ID is "" for items that only have a name.
type Outcome struct {
	ID     string `json:"id,omitempty"`
	Name   string `json:"name"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
	// ExitCode is nil if the provider does not report it.
	ExitCode *int `json:"exit_code,omitempty"`
}

// ForEach does work on all sandboxes, a few at a time, and reports each in their order. It prints ids on stdout, or all
// results as JSON, with the references in missing that match no sandbox. The error joins missing and the failures.
func ForEach(
	ctx context.Context, app *App, boxes []core.Sandbox, missing error, result string, asJSON bool,
	work func(context.Context, core.Sandbox) error,
) error {
	return ForEachCode(ctx, app, boxes, missing, result, asJSON, func(
		ctx context.Context, box core.Sandbox,
	) (*int, error) {
		return nil, work(ctx, box)
	})
}

// ForEachCode is forEach for work that yields exit codes. The JSON has them, and a terminal shows them.
func ForEachCode(
	ctx context.Context, app *App, boxes []core.Sandbox, missing error, result string, asJSON bool,
	work func(context.Context, core.Sandbox) (*int, error),
) error {
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
	var lost error
	outcomes := make([]Outcome, len(boxes))
	for i, box := range boxes {
		outcomes[i] = Outcome{ID: box.ID, Name: box.Name, Result: result, ExitCode: codes[i]}
		if failed[i] != nil {
			outcomes[i].Result, outcomes[i].Error = core.KindOf(failed[i]).String(), failed[i].Error()
			continue
		}
		if !asJSON && lost == nil {
			_, lost = fmt.Fprintln(app.Streams.Out, box.ID)
		}
		if code := codes[i]; code != nil && !asJSON && app.Streams.ErrTTY() {
			_, _ = fmt.Fprintf(app.Streams.Err, "%s: exit code %d\n", box.Name, *code)
		}
	}
	if asJSON {
		lost = output.List(app.Streams.Out, append(outcomes, unresolved(missing)...))
	}
	return errors.Join(append([]error{lost, missing}, failed...)...)
}

// unresolved lists the references in an error of SelectFlags.resolve that lead to no sandbox.
func unresolved(err error) []Outcome {
	if one, ok := err.(*unresolvedError); ok { //nolint:errorlint // the joined errors are walked
		return []Outcome{{Name: one.ref, Result: core.KindOf(one).String(), Error: one.Error()}}
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var outcomes []Outcome
	for _, e := range joined.Unwrap() {
		outcomes = append(outcomes, unresolved(e)...)
	}
	return outcomes
}

// OutcomeFields documents outcome for the --json flags of commands whose subjects have only a name.
func OutcomeFields(result string) string {
	return "an array of name, result (" + result + ", or the kind of the error), error"
}

// ForEachName calls work for each name in turn. It prints each returned line that is not empty, or all outcomes as
// JSON. If some fail, or a write fails, the others still run; the error joins the failures.
func ForEachName(
	app *App, names []string, result string, asJSON bool, work func(name string) (line string, err error),
) error {
	var failed []error
	var lost error
	outcomes := make([]Outcome, len(names))
	for i, name := range names {
		line, err := work(name)
		outcomes[i] = Outcome{Name: name, Result: result}
		switch {
		case err != nil:
			failed = append(failed, err)
			outcomes[i].Result, outcomes[i].Error = core.KindOf(err).String(), err.Error()
		case line != "" && !asJSON && lost == nil:
			_, lost = fmt.Fprintln(app.Streams.Out, line)
		}
	}
	if asJSON {
		lost = output.List(app.Streams.Out, outcomes)
	}
	return errors.Join(append(failed, lost)...)
}
