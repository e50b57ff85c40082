package sandboxes

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// MoveOptions are the options of move.
type MoveOptions struct {
	App   *cli.App
	Ref   string
	Move  service.MoveOptions
	JSON  bool
	Quiet bool
}

// NewMove makes "sb move".
func NewMove(app *cli.App) *cobra.Command {
	opts := &MoveOptions{App: app}
	var gpu core.GPU
	var env cli.EnvFlags
	cmd := &cobra.Command{
		Use: "move SANDBOX --to PROVIDER", Short: "Move a sandbox to another provider",
		Long: "Recreate a sandbox at another provider, with its image, environment, policy and changed files, and\n" +
			"print the new id. Processes and volumes do not move; warnings on stderr name everything that is left\n" +
			"out.",
		Example: "  sb move dev --to docker\n" +
			"  sb move train --to modal --gpu H100 --secret HF_TOKEN\n" +
			"  sb move dev --to local --path /app --keep",
		Args: cli.Exactly("SANDBOX"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			if opts.Move.To == "" {
				return cli.Usagef(cmd, "%s needs --to PROVIDER", cmd.CommandPath())
			}
			if cmd.Flags().Changed("gpu") {
				opts.Move.GPU = &gpu
			}
			var err error
			if opts.Move.Secrets, err = env.ReadSecrets(app.LookupEnv, app.Streams); err != nil {
				return err
			}
			return runMove(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&opts.Move.To, "to", "", "provider `NAME` to move to")
	flags.StringVarP(&opts.Move.Name, "name", "n", "", "`NAME` of the new sandbox (default: the same)")
	flags.StringVar(&opts.Move.Image, "image", "", "start from image `NAME` (default: the same image)")
	flags.Var(
		cli.GPUValue{GPU: &gpu}, "gpu", "GPUs at the new provider, as `TYPE[:COUNT]`; empty is none (default: the same)",
	)
	flags.StringArrayVar(
		&opts.Move.Paths, "path", nil,
		"move all of `PATH` instead of the files that differ from the image (repeatable)",
	)
	flags.StringArrayVar(
		&env.Secrets, "secret", nil, "set a secret: `KEY` from this environment, or KEY=@FILE (repeatable)",
	)
	flags.StringArrayVar(
		&env.SecretFiles, "secret-file", nil, "read secrets from the KEY=VALUE lines of `FILE` (repeatable)",
	)
	flags.StringArrayVar(
		&env.SecretRefs, "secret-ref", nil, "use a secret stored at the new provider: `KEY[=NAME]` (repeatable)",
	)
	flags.BoolVar(&opts.Move.Keep, "keep", false, "keep the old sandbox")
	cli.Complete(cmd, "to", app.CompleteProviders)
	cli.Complete(cmd, "gpu", app.CompleteGPUs)
	cli.Complete(cmd, "image", app.CompleteImages)
	cli.JSONFlag(cmd, &opts.JSON, "source, target (as in inspect), files, bytes, digest, resumed, kept, warnings")
	cli.QuietFlag(cmd, &opts.Quiet, "the new id, without progress or warnings")
	return cmd
}

func runMove(ctx context.Context, opts *MoveOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	stop := func() {}
	if !opts.Quiet {
		opts.Move.Progress, stop = opts.App.Progress()
	}
	result, err := svc.Sandboxes.Move(ctx, opts.Ref, opts.Move)
	stop()
	if !opts.Quiet {
		for _, warning := range result.Warnings {
			_, _ = fmt.Fprintf(opts.App.Streams.Err, "warning: %s\n", output.Clean(warning))
		}
	}
	if err != nil {
		return err
	}
	made := launched("move", result.Target)
	made.Value = result
	if err := opts.App.Tell(made, opts.JSON); err != nil || opts.JSON {
		return err
	}
	if !opts.Quiet && opts.App.Streams.ErrTTY() {
		_, _ = fmt.Fprintf(
			opts.App.Streams.Err, "%s runs on %s now: %s, %s\n", result.Target.Name, result.Target.Provider,
			output.Count(result.Files, "file", "files"), core.Bytes(result.Bytes),
		)
	}
	return nil
}
