package exec

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Options are the options of exec.
type Options struct {
	App     *cli.App
	Sandbox string
	Spec    core.ExecSpec
	JSON    bool
}

// NewExec makes "sb exec". Tests of parsing pass runF, which replaces the work.
func NewExec(app *cli.App, runF func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{App: app}
	flags := &cli.ExecFlags{}
	var detach bool
	cmd := &cobra.Command{
		Use:   "exec [flags] SANDBOX [flags] [--] COMMAND [ARG...]",
		Short: "Run a command in a sandbox",
		Long: "Run a command in a sandbox, with separate stdout and stderr. Stdin is forwarded from a pipe or a\n" +
			"file, and from a terminal with -i or -t." + cli.GuestExitHelp,
		Example: "  sb exec dev ls -la /\n" +
			"  sb exec dev -c 'echo $HOME | wc -c'\n" +
			"  tar c . | sb exec dev -w /app tar x\n" +
			"  sb exec -it dev python3\n" +
			"  while read -r f; do sb exec -n dev wc -l \"$f\"; done <files\n" +
			"  sb exec dev --timeout 30s --json -- make test\n" +
			"  id=$(sb exec --detach dev ./server) && sb logs -f dev $id",
		Annotations:       cli.PassesCode(),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			sandbox, words, err := cli.SplitCommand(cmd, args)
			if err != nil {
				return err
			}
			argv, err := flags.Argv(cmd, words)
			if err != nil {
				return err
			}
			switch {
			case flags.NoStdin && flags.Interactive:
				return cli.Usagef(cmd, "--no-stdin and -i exclude each other")
			case opts.JSON && flags.TTY:
				return cli.Usagef(cmd, "--json collects the output; it cannot be a terminal (-t) as well")
			case detach && (flags.TTY || flags.Interactive):
				return cli.Usagef(cmd, "--detach leaves the command without streams; -i and -t need them")
			}
			opts.Sandbox = sandbox
			if opts.Spec, err = flags.Spec(app, argv); err != nil {
				return err
			}
			if opts.Spec.Detach = detach; !detach {
				flags.Connect(app, &opts.Spec)
			}
			if runF != nil {
				return runF(cmd.Context(), opts)
			}
			return runExec(cmd.Context(), opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	flags.Register(cmd)
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "run the command in the background and print its id")
	cli.JSONFlag(
		cmd, &opts.JSON,
		"exec, stdout, stderr (up to 16MiB; text, or base64 according to *_encoding), *_bytes, *_truncated, exit_code, "+
			"signal, timed_out, "+
			"duration_ns; with --detach sandbox and exec",
	)
	return cmd
}

func runExec(ctx context.Context, opts *Options) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if opts.Spec.Detach {
		return detached(ctx, opts, svc)
	}
	if opts.JSON {
		return collected(ctx, opts, svc)
	}
	return opts.App.Execute(ctx, svc, opts.Sandbox, opts.Spec)
}

func detached(ctx context.Context, opts *Options, svc *service.Service) error {
	process, err := svc.Execs.Start(ctx, opts.Sandbox, opts.Spec)
	if err != nil {
		return err
	}
	id := process.ID()
	if err := process.Close(); err != nil {
		return err
	}
	// The journal records a failed start at once. A provider without a journal cannot report it.
	if begun, err := svc.Execs.Find(ctx, opts.Sandbox, id); err == nil && begun.Exit != nil && begun.Exit.NotStarted() {
		return opts.App.Result(ctx, svc, opts.Sandbox, *begun.Exit, nil)
	}
	return opts.App.Tell(cli.Made{
		Op: "exec", ID: id, Value: map[string]string{"sandbox": opts.Sandbox, "exec": id},
		Fact: fmt.Sprintf("the command runs as %s", id), Next: fmt.Sprintf("sb kill %s %s ends it", opts.Sandbox, id),
	}, opts.JSON)
}

func collected(ctx context.Context, opts *Options, svc *service.Service) error {
	var stdout, stderr capture
	opts.Spec.Stdout, opts.Spec.Stderr = &stdout, &stderr
	process, err := svc.Execs.Start(ctx, opts.Sandbox, opts.Spec)
	if err != nil {
		return opts.App.Result(ctx, svc, opts.Sandbox, core.Exit{}, err)
	}
	defer process.Close()
	exit, err := opts.App.Follow(ctx, process)
	if err != nil {
		return opts.App.Result(ctx, svc, opts.Sandbox, exit, err)
	}
	ended := opts.App.Result(ctx, svc, opts.Sandbox, exit, nil)
	report := Report{
		Exec:        process.ID(),
		StdoutBytes: stdout.total, StdoutTruncated: stdout.truncated(),
		StderrBytes: stderr.total, StderrTruncated: stderr.truncated(),
		ExitCode: cli.CodeOf(ctx, ended), Signal: exit.Signal, TimedOut: exit.TimedOut,
		Reason: exit.Reason, Message: exit.Message,
		Duration: exit.Duration,
	}
	report.Stdout, report.StdoutEncoding = stdout.text()
	report.Stderr, report.StderrEncoding = stderr.text()
	if err := output.JSON(opts.App.Streams.Out, report); err != nil {
		return err
	}
	return cli.PassThrough(report.ExitCode)
}

// captureLimit is how much of one stream --json collects.
const captureLimit = 16 << 20

// capture keeps the beginning of the output and counts the rest.
type capture struct {
	kept  []byte
	total int64
}

func (c *capture) Write(p []byte) (int, error) {
	c.total += int64(len(p))
	c.kept = append(c.kept, p[:min(len(p), captureLimit-len(c.kept))]...)
	return len(p), nil
}

func (c *capture) truncated() bool { return c.total > int64(len(c.kept)) }

// text returns the kept output and its encoding. Text stays as it is; other content is base64.
func (c *capture) text() (text, encoding string) {
	kept := c.kept
	if c.truncated() { // a cut through a character does not make text binary
		for i := 0; i < utf8.UTFMax && len(kept) > 0 && !utf8.Valid(kept[max(0, len(kept)-utf8.UTFMax):]); i++ {
			kept = kept[:len(kept)-1]
		}
	}
	if utf8.Valid(kept) {
		return string(kept), "utf-8"
	}
	return base64.StdEncoding.EncodeToString(c.kept), "base64"
}

// Report is the JSON of a command that ended.
type Report struct {
	Exec            string      `json:"exec"`
	Stdout          string      `json:"stdout"`
	StdoutEncoding  string      `json:"stdout_encoding"`
	StdoutBytes     int64       `json:"stdout_bytes"`
	StdoutTruncated bool        `json:"stdout_truncated"`
	Stderr          string      `json:"stderr"`
	StderrEncoding  string      `json:"stderr_encoding"`
	StderrBytes     int64       `json:"stderr_bytes"`
	StderrTruncated bool        `json:"stderr_truncated"`
	ExitCode        int         `json:"exit_code"`
	Signal          int         `json:"signal,omitempty"`
	TimedOut        bool        `json:"timed_out"`
	Reason          core.Reason `json:"reason,omitempty"`
	Message         string      `json:"message,omitempty"`
	// Duration is in nanoseconds, as in core.Exit.
	Duration time.Duration `json:"duration_ns"`
}
