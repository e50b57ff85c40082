package exec

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// WaitOptions are the options of wait.
type WaitOptions struct {
	App     *cli.App
	Sandbox string
	Exec    string
	Timeout cli.DurationValue
	// Ready waits for the readiness probe instead of the end.
	Ready bool
	JSON  bool
}

// NewWait makes "sb wait".
func NewWait(app *cli.App) *cobra.Command {
	opts := &WaitOptions{App: app}
	cmd := &cobra.Command{
		Use:   "wait SANDBOX [EXEC]",
		Short: "Wait for a command or a sandbox to end",
		Long: "Wait until a command exits and return its exit code. EXEC is an id from \"sb ps\" (default: the\n" +
			"sandbox, with the exit code of its entry command)." + cli.GuestExitHelp + "\n  Without EXEC also:\n" +
			"  124  its lifetime or idle time expired\n" +
			"  137  it was terminated or ran out of memory\n" +
			"  0    it was stopped and had no entry command",
		Example:           "  sb wait dev 3\n  sb wait --timeout 10m build && echo done\n  sb wait --ready --timeout 1m web",
		Annotations:       cli.PassesCode(),
		Args:              cli.Between([]string{"SANDBOX"}, "EXEC"),
		ValidArgsFunction: app.CompleteExecs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Sandbox = args[0]; len(args) > 1 {
				opts.Exec = args[1]
			}
			if opts.Ready && opts.Exec != "" {
				return cli.Usagef(cmd, "--ready waits for a sandbox, not for a command in it")
			}
			return runWait(cmd.Context(), opts)
		},
	}
	cmd.Flags().Var(&opts.Timeout, "timeout", "stop waiting after this time, with exit code 124")
	cmd.Flags().BoolVar(&opts.Ready, "ready", false, "wait until the readiness probe of the launch succeeds")
	cli.JSONFlag(
		cmd, &opts.JSON,
		"of a command exit_code, signal, timed_out, reason, message, duration_ns; of a sandbox as in inspect",
	)
	return cmd
}

func runWait(ctx context.Context, opts *WaitOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if limit := core.Duration(opts.Timeout); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(limit))
		defer cancel()
	}
	return waited(ctx, opts, svc)
}

func waited(ctx context.Context, opts *WaitOptions, svc *service.Service) error {
	if opts.Exec != "" {
		exit, err := svc.Execs.Wait(ctx, opts.Sandbox, opts.Exec)
		if err != nil {
			return late(ctx, opts, err)
		}
		if opts.JSON {
			if err := output.JSON(opts.App.Streams.Out, exit); err != nil {
				return err
			}
		}
		return opts.App.Result(ctx, svc, opts.Sandbox, exit, nil)
	}
	if opts.Ready {
		err := svc.Sandboxes.WaitReady(ctx, opts.Sandbox)
		if err != nil {
			return late(ctx, opts, err)
		}
		return ready(ctx, opts, svc)
	}
	box, err := svc.Sandboxes.Wait(ctx, opts.Sandbox)
	if err != nil {
		return late(ctx, opts, err)
	}
	if opts.JSON {
		if err := output.JSON(opts.App.Streams.Out, box); err != nil {
			return err
		}
	}
	return cli.EndOf(box)
}

// ready prints a sandbox that is.
func ready(ctx context.Context, opts *WaitOptions, svc *service.Service) error {
	if !opts.JSON {
		return nil
	}
	box, err := svc.Sandboxes.Resolve(ctx, opts.Sandbox)
	if err != nil {
		return err
	}
	return output.JSON(opts.App.Streams.Out, box)
}

// late replaces the error of an ended wait by our own if --timeout ended it.
func late(ctx context.Context, opts *WaitOptions, err error) error {
	if ctx.Err() != context.DeadlineExceeded {
		return err
	}
	what := fmt.Sprintf("%q to end", opts.Sandbox)
	switch {
	case opts.Exec != "":
		what = fmt.Sprintf("command %s in %q to end", opts.Exec, opts.Sandbox)
	case opts.Ready:
		what = fmt.Sprintf("%q to become ready", opts.Sandbox)
	}
	return &cli.ExitError{
		Code: cli.ExitTimeout,
		Err: core.Errorf(
			core.KindTimeout, "wait", "", "timed out after %s waiting for %s", core.Duration(opts.Timeout), what,
		),
	}
}
