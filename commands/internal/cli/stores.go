package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// StoreFlags are the flags of all commands on stores: volumes, secrets, snapshots and the like.
type StoreFlags struct {
	Provider string
	JSON     bool
	Quiet    bool
}

// RegisterProvider adds --provider with this help.
func (f *StoreFlags) RegisterProvider(app *App, cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.Provider, "provider", "", usage)
	Complete(cmd, "provider", app.CompleteProviders)
}

// StoreList describes the "ls" of one store.
type StoreList[T any] struct {
	Short, Long, Example string
	// Fields documents the JSON, Quiet the output of -q.
	Fields, Quiet string
	Headers       []string
	List          func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[T], error)
	Row           func(app *App, item T) []string
	ID            func(T) string
	// Note returns a problem of an item, or ""; it may be nil.
	Note func(T) string
}

// NewStoreLs makes the "ls" of a store.
func NewStoreLs[T any](app *App, s StoreList[T]) *cobra.Command {
	flags := &StoreFlags{}
	cmd := &cobra.Command{
		Use: "ls [flags]", Aliases: []string{"list"}, Short: s.Short, Long: s.Long, Example: s.Example, Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStoreLs(cmd.Context(), app, flags, s) },
	}
	flags.RegisterProvider(app, cmd, "only those of the provider `NAME`")
	JSONFlag(cmd, &flags.JSON, "an array of "+s.Fields)
	QuietFlag(cmd, &flags.Quiet, s.Quiet)
	return cmd
}

func runStoreLs[T any](ctx context.Context, app *App, flags *StoreFlags, s StoreList[T]) error {
	svc, err := app.Service()
	if err != nil {
		return err
	}
	found, err := s.List(ctx, svc, flags.Provider)
	if err != nil {
		return err
	}
	switch {
	case flags.JSON:
		err = output.List(app.Streams.Out, found.Items)
	case flags.Quiet:
		for _, item := range found.Items {
			if _, err = fmt.Fprintln(app.Streams.Out, s.ID(item)); err != nil {
				break
			}
		}
	case len(found.Items) > 0:
		table := app.Table(s.Headers...)
		for _, item := range found.Items {
			table.Row(s.Row(app, item)...)
		}
		err = table.Write(app.Streams.Out)
		for _, item := range found.Items {
			if s.Note != nil && s.Note(item) != "" {
				_, _ = fmt.Fprintf(app.Streams.Err, "%s: %s\n", s.ID(item), s.Note(item))
			}
		}
	}
	return errors.Join(err, app.WarnUnavailable(found.Failures, flags.Provider != ""))
}

// StoreRemoval describes the "rm" of one store.
type StoreRemoval struct {
	Noun, Short, Long, Example string
	// Ask requires --yes without a terminal. Otherwise the named items are removed there at once.
	Ask    bool
	Names  func(ctx context.Context, svc *service.Service) []string
	Remove func(ctx context.Context, svc *service.Service, provider, name string) error
	// Sizes returns the known sizes by name; it may be nil.
	Sizes func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes
}

// sized returns the names, each with its size if that is known.
func (s StoreRemoval) sized(ctx context.Context, svc *service.Service, provider string, names []string) []string {
	if s.Sizes == nil {
		return names
	}
	sizes := s.Sizes(ctx, svc, provider)
	labels := slices.Clone(names)
	for i, name := range names {
		if size := sizes[name]; size > 0 {
			labels[i] += " (" + size.String() + ")"
		}
	}
	return labels
}

// NewStoreRm makes the "rm" of a store.
func NewStoreRm(app *App, s StoreRemoval) *cobra.Command {
	flags, yes := &StoreFlags{}, false
	operand := strings.ToUpper(s.Noun)
	cmd := &cobra.Command{
		Use: "rm " + operand + "...", Aliases: []string{"remove", "delete"}, Short: s.Short, Long: s.Long, Example: s.Example,
		Args: AtLeast(operand), ValidArgsFunction: app.CompleteStored(s.Names),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStoreRm(cmd.Context(), app, flags, s, args, yes)
		},
	}
	flags.RegisterProvider(
		app, cmd, "the provider `NAME` that keeps them (default: the configured one, or the only usable one)",
	)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	JSONFlag(cmd, &flags.JSON, OutcomeFields("removed"))
	return cmd
}

func runStoreRm(ctx context.Context, app *App, flags *StoreFlags, s StoreRemoval, names []string, yes bool) error {
	svc, err := app.Service()
	if err != nil {
		return err
	}
	if !yes && (s.Ask || app.Streams.CanPrompt()) {
		if err := Confirm(
			app, fmt.Sprintf("Remove %s %s?", s.Noun, strings.Join(s.sized(ctx, svc, flags.Provider, names), ", ")), "--yes",
		); err != nil {
			return err
		}
	}
	return ForEachName(app, names, "removed", flags.JSON, func(name string) (string, error) {
		return name, core.Wrap(s.Noun+" rm", name, s.Remove(ctx, svc, flags.Provider, name))
	})
}

// CompleteStored completes names in a store, each once.
func (a *App) CompleteStored(names func(context.Context, *service.Service) []string) cobra.CompletionFunc {
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
		return words, NoFiles
	}
}

// Named returns the names in an inventory, or none after an error.
func Named[T any](found service.Inventory[T], err error, names func(T) []string) []string {
	var all []string
	if err == nil {
		for _, item := range found.Items {
			all = append(all, names(item)...)
		}
	}
	return all
}

// Tell prints a new object of a provider: as JSON, or only its id. noun is the noun of its command.
func (f *StoreFlags) Tell(app *App, noun, id string, made any) error {
	return app.Tell(Made{
		Op: noun, ID: id, Value: made,
		Fact: fmt.Sprintf("the %s %s was created", noun, id), Next: fmt.Sprintf("sb %s rm %s removes it", noun, id),
	}, f.JSON)
}
