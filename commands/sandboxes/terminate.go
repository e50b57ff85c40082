package sandboxes

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// TerminateOptions are the options of terminate.
type TerminateOptions struct {
	App    *cli.App
	Refs   []string
	Select cli.SelectFlags
	Yes    bool
	JSON   bool
}

// NewTerminate makes "sb terminate".
func NewTerminate(app *cli.App) *cobra.Command {
	opts := &TerminateOptions{App: app}
	cmd := &cobra.Command{
		Use:     "terminate SANDBOX...",
		Aliases: []string{"rm", "remove", "delete"},
		Short:   "End sandboxes and remove their files",
		Long: "End sandboxes, running or not, and remove their files, logs and journals.\n" +
			"With --all, --label, --app or --provider it asks first, or needs --yes.",
		Example: "  sb terminate dev\n" +
			"  sb rm dev build-7\n" +
			"  sb terminate --all --yes\n" +
			"  sb terminate --app ci --label branch=main --yes",
		ValidArgsFunction: app.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Select.Check(cmd, args); err != nil {
				return err
			}
			opts.Refs = args
			return runTerminate(cmd.Context(), opts)
		},
	}
	opts.Select.Register(app, cmd)
	cmd.Flags().BoolVarP(&opts.Yes, "yes", "y", false, "do not ask")
	cli.JSONFlag(
		cmd, &opts.JSON,
		"an array of id, name, result (terminated, or the kind of the error), exit_code where it is known, error",
	)
	return cmd
}

// nameKept prints the persistent sandboxes in boxes and the size of their files, before the question.
func nameKept(app *cli.App, boxes []core.Sandbox) {
	for _, box := range boxes {
		if box.Spec.Persist {
			_, _ = fmt.Fprintf(
				app.Streams.Err, "%s on %s is persistent: its files are removed, too (%s)\n", output.Clean(box.Name), box.Provider,
				cmp.Or(cli.SizeText(box.Size), "size unknown"),
			)
		}
	}
}

func runTerminate(ctx context.Context, opts *TerminateOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	boxes, missing := opts.Select.Resolve(ctx, opts.App, service, opts.Refs)
	if len(boxes) > 0 && !opts.Yes && (opts.Select.Given() || opts.App.Streams.CanPrompt()) {
		nameKept(opts.App, service.Sandboxes.Sized(ctx, boxes))
		question := fmt.Sprintf("Terminate %d sandboxes?", len(boxes))
		if len(boxes) == 1 {
			question = fmt.Sprintf("Terminate %s?", boxes[0].Name)
		}
		if err := cli.Confirm(opts.App, question, "--yes"); err != nil {
			return err
		}
	}
	return cli.ForEachCode(ctx, opts.App, boxes, missing, "terminated", opts.JSON, func(
		ctx context.Context, box core.Sandbox,
	) (*int, error) {
		code, err := service.Sandboxes.End(ctx, box.ID)
		if opts.Select.Given() && errors.Is(err, core.KindNotFound) {
			return nil, nil //nolint:nilnil // another process ended it after the listing
		}
		return code, err
	})
}
