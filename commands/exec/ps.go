package exec

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// PsOptions are the options of ps.
type PsOptions struct {
	App     *cli.App
	Sandbox string
	All     bool
	JSON    bool
	Quiet   bool
}

// NewPs makes "sb ps".
func NewPs(app *cli.App) *cobra.Command {
	opts := &PsOptions{App: app}
	cmd := &cobra.Command{
		Use:   "ps SANDBOX",
		Short: "List the commands of a sandbox",
		Long: "List the running commands of a sandbox, from all users and programs. Pass the ids to \"sb logs\", \"sb\n" +
			"attach\", \"sb wait\" and \"sb kill\"; 0 is the entry command.",
		Example:           "  sb ps dev\n  sb ps --all --json dev",
		Args:              cli.Exactly("SANDBOX"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox = args[0]
			return runPs(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.All, "all", "a", false, "include commands that exited")
	cli.JSONFlag(
		cmd, &opts.JSON,
		"an array of id, sandbox, command, user, workdir, tty, detach, actor, started, ended, exit, stdout_bytes, "+
			"stderr_bytes, truncated",
	)
	cli.QuietFlag(cmd, &opts.Quiet, "ids")
	return cmd
}

func runPs(ctx context.Context, opts *PsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	all, err := service.Execs.List(ctx, opts.Sandbox)
	if err != nil {
		return err
	}
	var execs []core.Exec
	for _, e := range all {
		if e.Damaged() {
			_, _ = fmt.Fprintf(opts.App.Streams.Err, "warning: command %s: %s\n", e.ID, output.Clean(e.Exit.Message))
		}
		if opts.All || e.Running() {
			execs = append(execs, e)
		}
	}
	out := opts.App.Streams.Out
	switch {
	case opts.JSON:
		return output.List(out, execs)
	case opts.Quiet:
		for _, e := range execs {
			if _, err := fmt.Fprintln(out, e.ID); err != nil {
				return err
			}
		}
		return nil
	case len(execs) == 0:
		if opts.App.Streams.ErrTTY() {
			_, _ = fmt.Fprintf(opts.App.Streams.Err, "no command runs in %s; --all includes those that exited\n", opts.Sandbox)
		}
		return nil
	}
	now := opts.App.Now()
	table := opts.App.Table("EXEC", "STATUS", "AGE", "TOOK", "BY", "COMMAND")
	for _, e := range execs {
		if e.Damaged() {
			table.Row(e.ID, "unknown", "", "", "", "")
			continue
		}
		took := ""
		switch {
		case e.Running():
			took = output.Elapsed(now.Sub(e.Started))
		case !e.Ended.IsZero():
			took = output.Elapsed(e.Ended.Sub(e.Started))
		}
		table.Row(e.ID, cli.ExecStatus(e), output.Age(e.Started, now), took, e.Actor, cli.ShellText(e.Command))
	}
	return table.Write(out)
}
