package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
)

// CheckpointCreateOptions are what checkpoint create works with.
type CheckpointCreateOptions struct {
	App   *App
	Ref   string
	Name  string
	JSON  bool
	Quiet bool
}

// NewCheckpointCreate makes "sb checkpoint create".
func NewCheckpointCreate(app *App, runF func(context.Context, *CheckpointCreateOptions) error) *cobra.Command {
	opts := &CheckpointCreateOptions{App: app}
	cmd := &cobra.Command{
		Use:   "create SANDBOX",
		Short: "Keep a running sandbox as it is now, memory included",
		Long: "Keep a running sandbox as it is now under a name, and print the name. The sandbox goes on. What goes on in\n" +
			"a sandbox that is launched from it is as with \"sb fork\": the entry command and detached ones.\n\n" +
			"Modal keeps only what was launched with --modal memory_snapshot=true: the entry command alone, and\n" +
			"for seven days. The name is known on this machine." + exitStatusHelp,
		Example:           "  sb checkpoint create dev --name warm",
		Args:              exactly("SANDBOX"),
		ValidArgsFunction: firstArg(app.completeSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			return orRun(runF, runCheckpointCreate)(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(&opts.Name, "name", "n", "", "`NAME` of the checkpoint (default: the sandbox's and the time)")
	jsonFlag(cmd, &opts.JSON, "the checkpoint: name, id, provider, sandbox, of, created, expires, size, spec")
	quietFlag(cmd, &opts.Quiet, "the name")
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
		size := sizeText(checkpoint.Size)
		if size != "" {
			size += "; "
		}
		_, _ = fmt.Fprintf(opts.App.Streams.Err, "%snext: sb launch --checkpoint %s\n", size, checkpoint.Name)
	}
	return nil
}
