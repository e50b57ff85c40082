package exec

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// ShellOptions are the options of shell.
type ShellOptions struct {
	App     *cli.App
	Sandbox string
	Spec    core.ExecSpec
}

// loginShell starts bash if the sandbox has it, else sh.
const loginShell = `if [ -x /bin/bash ]; then exec /bin/bash "$@"; else exec /bin/sh "$@"; fi`

// NewShell makes "sb shell".
func NewShell(app *cli.App) *cobra.Command {
	opts := &ShellOptions{App: app}
	flags := &cli.ExecFlags{}
	cmd := &cobra.Command{
		Use:     "shell [flags] SANDBOX [flags] [--] [COMMAND [ARG...]]",
		Aliases: []string{"sh"},
		Short:   "Open a shell in a sandbox",
		Long: "Open a shell in a sandbox: /bin/bash, or /bin/sh if there is no bash, or COMMAND. If stdin is a pipe\n" +
			"or a file, the shell reads its commands from there." + cli.GuestExitHelp,
		Example: "  sb shell dev\n" +
			"  sb shell -u root -w /srv dev\n" +
			"  echo 'uname -a' | sb shell dev",
		Annotations:       cli.PassesCode(),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			sandbox, argv, err := cli.SplitCommand(cmd, args)
			if err != nil {
				return err
			}
			if len(argv) == 0 {
				argv = []string{"/bin/sh", "-c", loginShell, "sh"}
			}
			flags.TTY = app.Streams.InTTY() && app.Streams.OutTTY()
			flags.Interactive = true
			opts.Sandbox = sandbox
			if opts.Spec, err = flags.Spec(app, argv); err != nil {
				return err
			}
			if term, ok := app.LookupEnv("TERM"); ok && flags.TTY {
				if opts.Spec.Env == nil {
					opts.Spec.Env = map[string]string{}
				}
				if _, given := opts.Spec.Env["TERM"]; !given {
					opts.Spec.Env["TERM"] = term
				}
			}
			flags.Connect(app, &opts.Spec)
			return runShell(cmd.Context(), opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().SortFlags = false
	flags.RegisterPlace(cmd)
	return cmd
}

func runShell(ctx context.Context, opts *ShellOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	return opts.App.Execute(ctx, service, opts.Sandbox, opts.Spec)
}
