package sandboxes

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

// LaunchOptions are the options of launch.
type LaunchOptions struct {
	App  *cli.App
	Spec core.Spec
	// Named is service.LaunchOptions.Named.
	Named   bool
	Explain bool
	// WaitReady is how long to wait for the readiness probe; 0 does not wait.
	WaitReady cli.DurationValue
	JSON      bool
	Quiet     bool
}

// NewLaunch makes "sb launch". Tests of parsing pass runF, which replaces the work.
func NewLaunch(app *cli.App, runF func(context.Context, *LaunchOptions) error) *cobra.Command {
	opts := &LaunchOptions{App: app}
	flags := &cli.SpecFlags{}
	cmd := &cobra.Command{
		Use:     "launch [flags] [--] [COMMAND [ARG...]]",
		Aliases: []string{"create"},
		Short:   "Launch a sandbox and leave it running",
		Long: "Launch a sandbox and print its id. It runs until its command returns, its --timeout or\n" +
			"--idle-timeout expires, or it is terminated.",
		Example: "  sb launch --name dev\n" +
			"  sb launch --image python:3.12 --memory 2G --timeout 1h --secret API_TOKEN\n" +
			"  sb launch --gpu H100:2 --explain\n" +
			"  sb launch --port 8000 --ready-tcp 8000 --wait-ready -- python3 -m http.server 8000\n" +
			"  sb launch --file spec.yaml --name dev2 -- python3 -m http.server 8000",
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := flags.Spec(cmd.Flags(), app.Streams, app.LookupEnv)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				spec.Command = args
				if err := checkWaitReady(cmd, args); err != nil {
					return err
				}
			}
			if opts.WaitReady > 0 && spec.Ready == nil {
				return cli.Usagef(
					cmd, "--wait-ready needs a readiness check: add --ready-tcp PORT or --ready-exec COMMAND",
				)
			}
			opts.Spec, opts.Named = spec, cmd.Flags().Changed("volume")
			if runF != nil {
				return runF(cmd.Context(), opts)
			}
			return runLaunch(cmd.Context(), opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	flags.Register(app, cmd)
	cmd.Flags().Var(
		&opts.WaitReady, "wait-ready", "wait until the readiness probe succeeds, or fail after this time; the sandbox "+
			"keeps running",
	)
	cmd.Flags().Lookup("wait-ready").NoOptDefVal = "5m"
	cmd.Flags().BoolVar(&opts.Explain, "explain", false, "show which provider would be chosen and why; launch nothing")
	cli.JSONFlag(cmd, &opts.JSON, "the sandbox as in inspect, or with --explain the placement")
	cli.QuietFlag(cmd, &opts.Quiet, "the id, without progress")
	return cmd
}

// checkWaitReady refuses a command that is the value of a bare --wait-ready: "--wait-ready 20s".
func checkWaitReady(cmd *cobra.Command, command []string) error {
	flag := cmd.Flags().Lookup("wait-ready")
	_, err := core.ParseDuration(command[0])
	if err != nil || !flag.Changed || flag.Value.String() != flag.NoOptDefVal || cmd.ArgsLenAtDash() == 0 {
		return nil
	}
	return core.Errorf(
		core.KindUsage, cmd.Name(), command[0], "%s would be the command, not the time of --wait-ready", command[0],
	).
		WithHint("write --wait-ready=%s; for a command of that name write -- before it", command[0])
}

func runLaunch(ctx context.Context, opts *LaunchOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if opts.Explain {
		return explain(ctx, opts, svc)
	}
	var report core.ProgressFunc
	stop := func() {}
	if !opts.Quiet {
		report, stop = opts.App.Progress()
	}
	box, err := svc.Sandboxes.Launch(ctx, opts.Spec, service.LaunchOptions{
		Named: opts.Named, Progress: report, Notice: opts.App.Notice,
	})
	stop()
	if err != nil {
		return err
	}
	if err := tellLaunched(opts, box); err != nil || opts.WaitReady == 0 {
		return err
	}
	return awaitReady(ctx, svc, box, time.Duration(opts.WaitReady))
}

// awaitReady waits for a sandbox that was launched. Its id is printed already: a sandbox that is not ready keeps
// running.
func awaitReady(ctx context.Context, svc *service.Service, box core.Sandbox, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return svc.Sandboxes.WaitReady(ctx, box.Ref())
}

// launched describes a sandbox that op launched. It keeps running, also if its id cannot be printed.
func launched(op string, box core.Sandbox) cli.Made {
	return cli.Made{
		Op: op, ID: box.ID, Value: box,
		Fact: fmt.Sprintf("the sandbox %s runs", box.ID), Next: fmt.Sprintf("sb terminate %s ends it", box.ID),
	}
}

// tellLaunched prints the sandbox.
func tellLaunched(opts *LaunchOptions, box core.Sandbox) error {
	if err := opts.App.Tell(launched("launch", box), opts.JSON); err != nil || opts.JSON {
		return err
	}
	if !opts.Quiet && box.Direct != "" {
		_, _ = fmt.Fprintf(opts.App.Streams.Err, "to use it without sb: %s\n", box.Direct)
	}
	if !opts.Quiet && opts.App.Streams.ErrTTY() {
		_, _ = fmt.Fprintf(opts.App.Streams.Err, "%s runs on %s; next: sb shell %s\n", box.Name, box.Provider, box.Name)
		for _, port := range box.Ports {
			_, _ = fmt.Fprintf(opts.App.Streams.Err, "port %d is at %s\n", port.Sandbox, port.Address)
		}
	}
	return nil
}

func explain(ctx context.Context, opts *LaunchOptions, svc *service.Service) error {
	placement, err := svc.Sandboxes.Explain(ctx, opts.Spec)
	if err != nil {
		return err
	}
	if opts.JSON {
		if err := output.JSON(opts.App.Streams.Out, placement); err != nil {
			return err
		}
	} else {
		table := opts.App.Table("PROVIDER", "FITS", "CHOSEN", "WHY").Wrapped()
		for _, c := range placement.Candidates {
			table.Row(c.Provider, cli.YesNo(c.OK), cli.YesNo(c.Provider == placement.Chosen), c.Why)
		}
		if err := table.Write(opts.App.Streams.Out); err != nil {
			return err
		}
	}
	if placement.Chosen == "" {
		return core.Errorf(core.KindUnsupported, "launch", "", "no provider supports all of the spec").
			WithHint("request less, or see %q for the capabilities of each provider", "sb provider ls")
	}
	return nil
}
