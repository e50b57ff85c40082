package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// storeFlags are those of every command on what providers keep.
type storeFlags struct {
	Provider string
	JSON     bool
	Quiet    bool
}

func (f *storeFlags) provider(app *App, cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.Provider, "provider", "", usage)
	complete(cmd, "provider", app.completeProviders)
}

// storeList describes the "ls" of one kind of thing that providers keep.
type storeList[T any] struct {
	short, long, example string
	// fields documents the JSON, quiet what -q prints.
	fields, quiet string
	headers       []string
	list          func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[T], error)
	row           func(app *App, item T) []string
	id            func(T) string
	// note says what is wrong with an item; nil says nothing.
	note func(T) string
}

// newStoreLs makes an "ls" of what providers keep.
func newStoreLs[T any](app *App, s storeList[T]) *cobra.Command {
	flags := &storeFlags{}
	cmd := &cobra.Command{
		Use: "ls [flags]", Aliases: []string{"list"}, Short: s.short, Long: s.long + exitStatusHelp, Example: s.example, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStoreLs(cmd.Context(), app, flags, s) },
	}
	flags.provider(app, cmd, "only those of the provider `NAME`")
	jsonFlag(cmd, &flags.JSON, "an array of "+s.fields)
	quietFlag(cmd, &flags.Quiet, s.quiet)
	return cmd
}

func runStoreLs[T any](ctx context.Context, app *App, flags *storeFlags, s storeList[T]) error {
	svc, err := app.Service()
	if err != nil {
		return err
	}
	found, err := s.list(ctx, svc, flags.Provider)
	if err != nil {
		return err
	}
	switch {
	case flags.JSON:
		err = output.List(app.Streams.Out, found.Items)
	case flags.Quiet:
		for _, item := range found.Items {
			if _, err = fmt.Fprintln(app.Streams.Out, s.id(item)); err != nil {
				break
			}
		}
	case len(found.Items) > 0:
		table := app.table(s.headers...)
		for _, item := range found.Items {
			table.Row(s.row(app, item)...)
		}
		err = table.Write(app.Streams.Out)
		for _, item := range found.Items {
			if s.note != nil && s.note(item) != "" {
				_, _ = fmt.Fprintf(app.Streams.Err, "%s: %s\n", s.id(item), s.note(item))
			}
		}
	}
	return errors.Join(err, app.warnUnavailable(found.Failures, flags.Provider != ""))
}

// storeRemoval describes the "rm" of one kind of thing that providers keep.
type storeRemoval struct {
	noun, short, long, example string
	// ask refuses without a terminal unless --yes is there; else those named are removed at once then.
	ask    bool
	names  func(ctx context.Context, svc *service.Service) []string
	remove func(ctx context.Context, svc *service.Service, provider, name string) error
	// sizes tells by name what things take, as far as it is known; nil is nothing.
	sizes func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes
}

// sized are the names, each with its size where that is known.
func (s storeRemoval) sized(ctx context.Context, svc *service.Service, provider string, names []string) []string {
	if s.sizes == nil {
		return names
	}
	sizes := s.sizes(ctx, svc, provider)
	told := slices.Clone(names)
	for i, name := range names {
		if size := sizes[name]; size > 0 {
			told[i] += " (" + size.String() + ")"
		}
	}
	return told
}

// sizesOf collects the sizes of an inventory; a failure is none.
func sizesOf[T any](found service.Inventory[T], err error, of func(T) (name string, size core.Bytes)) map[string]core.Bytes {
	sizes := map[string]core.Bytes{}
	if err == nil {
		for _, item := range found.Items {
			name, size := of(item)
			sizes[name] = size
		}
	}
	return sizes
}

// newStoreRm makes an "rm" of what providers keep.
func newStoreRm(app *App, s storeRemoval) *cobra.Command {
	flags, yes := &storeFlags{}, false
	operand := strings.ToUpper(s.noun)
	cmd := &cobra.Command{
		Use: "rm " + operand + "...", Aliases: []string{"remove", "delete"}, Short: s.short, Long: s.long + exitStatusHelp, Example: s.example,
		Args: atLeast(operand), ValidArgsFunction: app.completeStored(s.names),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStoreRm(cmd.Context(), app, flags, s, args, yes)
		},
	}
	flags.provider(app, cmd, "the provider `NAME` that keeps them (default: the configured one, or the only one set up that can)")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	jsonFlag(cmd, &flags.JSON, outcomeFields("removed"))
	return cmd
}

func runStoreRm(ctx context.Context, app *App, flags *storeFlags, s storeRemoval, names []string, yes bool) error {
	svc, err := app.Service()
	if err != nil {
		return err
	}
	if !yes && (s.ask || app.Streams.CanPrompt()) {
		if err := confirm(app, fmt.Sprintf("Remove %s %s?", s.noun, strings.Join(s.sized(ctx, svc, flags.Provider, names), ", ")), "--yes"); err != nil {
			return err
		}
	}
	return forEachName(app, names, "removed", flags.JSON, func(name string) (string, error) {
		return name, core.Wrap(s.noun+" rm", name, s.remove(ctx, svc, flags.Provider, name))
	})
}

// completeStored completes names of things that providers keep, each once.
func (a *App) completeStored(names func(context.Context, *service.Service) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		given := map[string]bool{}
		for _, arg := range args {
			given[arg] = true
		}
		var words []string
		for _, name := range a.ask(cmd, names) {
			if strings.HasPrefix(name, word) && !given[name] {
				given[name] = true
				words = append(words, name)
			}
		}
		return words, noFiles
	}
}

// named collects the names of an inventory; a failure is no names.
func named[T any](found service.Inventory[T], err error, names func(T) []string) []string {
	var all []string
	if err == nil {
		for _, item := range found.Items {
			all = append(all, names(item)...)
		}
	}
	return all
}

// tell prints what was made: JSON, or its id alone.
func (f *storeFlags) tell(app *App, made any, id string) error {
	if f.JSON {
		return output.JSON(app.Streams.Out, made)
	}
	_, err := fmt.Fprintln(app.Streams.Out, id)
	return err
}

// since is the age of something, or "" when it is not known.
func (a *App) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return output.Age(t, a.Now())
}

// sizeText is a size, or "" when it is not known.
func sizeText(size core.Bytes) string {
	if size == 0 {
		return ""
	}
	return size.String()
}
