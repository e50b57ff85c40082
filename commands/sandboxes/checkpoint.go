package sandboxes

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/commands/stores"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewCheckpoint makes "sb checkpoint".
func NewCheckpoint(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "checkpoint",
		Example: "  sb checkpoint create dev --name warm\n  sb launch --checkpoint warm\n  sb checkpoint rm warm",
		Short:   "Sandboxes kept as they were, memory included",
		Long: "Keep running sandboxes, memory and files, under a name, and launch others that go on from there.\n\n" +
			"A checkpoint holds what the processes held in memory, secrets included: it is as secret as the sandbox\n" +
			"was. On this machine it lies in the state directory, readable for you alone." + cli.ExitStatusHelp,
	}, NewCheckpointCreate(app, nil), NewCheckpointLs(app), NewCheckpointRm(app))
}

// CheckpointCreateOptions are what checkpoint create works with.
type CheckpointCreateOptions struct {
	App   *cli.App
	Ref   string
	Name  string
	JSON  bool
	Quiet bool
}

// NewCheckpointCreate makes "sb checkpoint create".
func NewCheckpointCreate(app *cli.App, runF func(context.Context, *CheckpointCreateOptions) error) *cobra.Command {
	opts := &CheckpointCreateOptions{App: app}
	cmd := &cobra.Command{
		Use:   "create SANDBOX",
		Short: "Keep a running sandbox as it is now, memory included",
		Long: "Keep a running sandbox as it is now under a name, and print the name. The sandbox goes on. What goes on in\n" +
			"a sandbox that is launched from it is as with \"sb fork\": the entry command and detached ones.\n\n" +
			"Modal keeps only what was launched with --modal memory_snapshot=true: the entry command alone, and\n" +
			"for seven days. The name is known on this machine." + cli.ExitStatusHelp,
		Example:           "  sb checkpoint create dev --name warm",
		Args:              cli.Exactly("SANDBOX"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			return cli.OrRun(runF, runCheckpointCreate)(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(&opts.Name, "name", "n", "", "`NAME` of the checkpoint (default: the sandbox's and the time)")
	cli.JSONFlag(cmd, &opts.JSON, "the checkpoint: name, id, provider, sandbox, of, created, expires, size, spec")
	cli.QuietFlag(cmd, &opts.Quiet, "the name")
	return cmd
}

func runCheckpointCreate(ctx context.Context, opts *CheckpointCreateOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	checkpoint, err := service.Checkpoint(ctx, opts.Ref, opts.Name)
	if err != nil {
		return err
	}
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, checkpoint)
	}
	if _, err := fmt.Fprintln(opts.App.Streams.Out, checkpoint.Name); err != nil {
		return err
	}
	if !opts.Quiet && opts.App.Streams.ErrTTY() {
		size := cli.SizeText(checkpoint.Size)
		if size != "" {
			size += "; "
		}
		_, _ = fmt.Fprintf(opts.App.Streams.Err, "%snext: sb launch --checkpoint %s\n", size, checkpoint.Name)
	}
	return nil
}

// NewCheckpointLs makes "sb checkpoint ls".
func NewCheckpointLs(app *cli.App) *cobra.Command {
	return cli.NewStoreLs(app, cli.StoreList[core.Checkpoint]{
		Short: "List checkpoints", Long: "List the checkpoints of all providers that keep some, or of one, oldest first.\n\"sb launch --checkpoint NAME\" goes on from one.",
		Example: "  sb checkpoint ls\n  sb checkpoint ls --json",
		Fields:  "name, id, provider, sandbox, of, created, expires, size, note, spec", Quiet: "names",
		Headers: []string{"NAME", "PROVIDER", "OF", "SIZE", "AGE", "ENDS IN"},
		List: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.Checkpoint], error) {
			return svc.Checkpoints(ctx, provider)
		},
		Row: func(app *cli.App, c core.Checkpoint) []string {
			return []string{c.Name, c.Provider, c.Of, cli.SizeText(c.Size), app.Since(c.Created), until(c.Expires, app.Now())}
		},
		ID:   func(c core.Checkpoint) string { return c.Name },
		Note: func(c core.Checkpoint) string { return c.Note },
	})
}

// NewCheckpointRm makes "sb checkpoint rm".
func NewCheckpointRm(app *cli.App) *cobra.Command {
	return cli.NewStoreRm(app, cli.StoreRemoval{
		Noun: "checkpoint", Short: "Remove checkpoints",
		Long: "Remove checkpoints by their names. On a terminal it asks first. Sandboxes that were launched from them go on.\n" +
			"Modal removes none before its time: its checkpoints are forgotten, and end when \"sb checkpoint ls\" said.",
		Example: "  sb checkpoint rm warm",
		Names:   cli.CheckpointNames,
		Sizes: func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes {
			found, err := svc.Checkpoints(ctx, provider)
			return stores.SizesOf(found, err, func(kept core.Checkpoint) (string, core.Bytes) { return kept.Name, kept.Size })
		},
		Remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.RemoveCheckpoint(ctx, provider, name)
		},
	})
}
