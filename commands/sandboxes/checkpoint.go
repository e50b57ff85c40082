package sandboxes

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/stores"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewCheckpoint makes "sb checkpoint".
func NewCheckpoint(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "checkpoint",
		Example: "  sb checkpoint create dev --name warm\n  sb launch --checkpoint warm\n  sb checkpoint rm warm",
		Short:   "Save running sandboxes, memory included",
		Long: "Save the memory and files of a running sandbox, and launch copies that continue from there. A\n" +
			"checkpoint contains the memory of the processes, secrets included: protect it like the sandbox.",
	}, NewCheckpointCreate(app), NewCheckpointLs(app), NewCheckpointRm(app))
}

// CheckpointCreateOptions are the options of checkpoint create.
type CheckpointCreateOptions struct {
	App   *cli.App
	Ref   string
	Name  string
	JSON  bool
	Quiet bool
}

// NewCheckpointCreate makes "sb checkpoint create".
func NewCheckpointCreate(app *cli.App) *cobra.Command {
	opts := &CheckpointCreateOptions{App: app}
	cmd := &cobra.Command{
		Use:               "create SANDBOX",
		Short:             "Save the memory and files of a running sandbox",
		Long:              "Save a running sandbox as a checkpoint and print its name. The sandbox keeps running.",
		Example:           "  sb checkpoint create dev --name warm",
		Args:              cli.Exactly("SANDBOX"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			return runCheckpointCreate(cmd.Context(), opts)
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
	checkpoint, err := service.Sandboxes.Checkpoint(ctx, opts.Ref, opts.Name)
	if err != nil {
		return err
	}
	if err := opts.App.Tell(cli.Made{
		Op: "checkpoint", ID: checkpoint.Name, Value: checkpoint,
		Fact: fmt.Sprintf("the checkpoint %s was created", checkpoint.Name),
		Next: fmt.Sprintf("sb checkpoint rm %s removes it", checkpoint.Name),
	}, opts.JSON); err != nil || opts.JSON {
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
		Short: "List checkpoints", Long: "List the checkpoints of all providers or of one, oldest first.\n" +
			"Use \"sb launch --checkpoint NAME\" to launch a sandbox from one.",
		Example: "  sb checkpoint ls\n  sb checkpoint ls --json",
		Fields:  "name, id, provider, sandbox, of, created, expires, size, note, spec", Quiet: "names",
		Headers: []string{"NAME", "PROVIDER", "OF", "SIZE", "AGE", "ENDS IN"},
		List: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.Checkpoint], error) {
			return svc.Stores.Checkpoints(ctx, provider)
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
		Long:    "Remove checkpoints by name; sandboxes launched from them keep running. On a terminal it asks first.",
		Example: "  sb checkpoint rm warm",
		Names:   cli.CheckpointNames,
		Sizes: func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes {
			found, err := svc.Stores.Checkpoints(ctx, provider)
			return stores.SizesOf(found, err, func(kept core.Checkpoint) (string, core.Bytes) { return kept.Name, kept.Size })
		},
		Remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.Stores.RemoveCheckpoint(ctx, provider, name)
		},
	})
}
