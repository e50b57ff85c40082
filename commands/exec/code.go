package exec

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
)

// CodeOptions are the options of code.
type CodeOptions struct {
	App *cli.App
	// Sandbox is "" for the sandbox that all such runs share.
	Sandbox string
	Run     code.Run
	// Output is the directory for pictures and documents; "" keeps none.
	Output string
	JSON   bool
}

// NewCode makes "sb code".
func NewCode(app *cli.App) *cobra.Command {
	opts := &CodeOptions{App: app}
	flags := &cli.ExecFlags{}
	var language, text string
	var idle cli.DurationValue
	cmd := &cobra.Command{
		Use:   "code [flags] [SANDBOX] [FILE|-|CODE]",
		Short: "Run code in a session that keeps its variables",
		Long: "Run code in a session: an interpreter in the sandbox that keeps variables and imports between runs. Without\n" +
			"SANDBOX it runs in the sandbox \"" + codeSandbox + "\", which is launched at first use, from the template\n\"" +
			codeSandbox + "\" if there is one.\n\nEXIT CODES\n" +
			"  1 if the code raised an error, 124 after --timeout, 130 after an interrupt, or the exit code of a program.\n" +
			"  \"sb help exit-codes\" lists the others.",
		Example: "  sb code 'x = 6 * 7'\n" +
			"  sb code x\n" +
			"  sb code dev analysis.py\n" +
			"  sb code dev -o plots 'df.plot()'\n" +
			"  sb code dev main.go\n" +
			"  git show HEAD:job.js | sb code -l javascript dev -\n" +
			"  sb code --json --session stats dev 'df.describe()' | jq -r 'select(.data)'",
		Annotations:       cli.PassesCode(),
		Args:              cli.Between(nil, "SANDBOX", "FILE"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			source := codeSource{app: app, args: args}
			if cmd.Flags().Changed("command") {
				source.text = &text
			}
			var err error
			if language != "" {
				if opts.Run.Language, err = parseLanguage(language); err != nil {
					return err
				}
			}
			place, err := flags.Spec(app, nil)
			if err != nil {
				return err
			}
			opts.Run.Env, opts.Run.Secrets, opts.Run.Workdir, opts.Run.User = place.Env, place.Secrets, place.Workdir, place.User
			opts.Run.Timeout, opts.Run.IdleTimeout = place.Timeout, time.Duration(idle)
			if err := source.read(ctx, cmd, opts); err != nil {
				return err
			}
			if opts.Run.Language.HasSessions() {
				return runCode(ctx, opts)
			}
			for _, flag := range []string{"session", "new", "idle-timeout", "output"} {
				if cmd.Flags().Changed(flag) {
					return cli.Usagef(cmd, "--%s needs a session, and programs in %s have none", flag, opts.Run.Language)
				}
			}
			return runProgram(ctx, opts)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&text, "command", "c", "", "run `CODE`, whatever it looks like")
	cmd.Flags().StringVarP(&language, "language", "l", "",
		"`LANGUAGE`: python, javascript or bash; without sessions "+ofPrograms()+" (default: of FILE, or python)")
	cmd.Flags().StringVarP(&opts.Run.Session, "session", "s", "", "`NAME` of the session (default: \"default\")")
	cmd.Flags().BoolVar(&opts.Run.New, "new", false, "start the session over, without its variables")
	cmd.Flags().Var(&flags.Timeout, "timeout", "interrupt the code after this time, with exit code 124")
	cmd.Flags().Var(&idle, "idle-timeout", "end a new session when it is unused for this time (default: 1h)")
	cmd.Flags().StringVarP(&opts.Output, "output", "o", "", "save pictures and documents in the directory `DIR`")
	flags.RegisterPlace(cmd)
	cli.JSONFlag(cmd, &opts.JSON,
		"a line for each event: type (queued, begin, stdout, stderr, result, error, timeout, end), text, data by MIME type, "+
			"omitted, name, value, traceback, ok, files, execution_count")
	cli.Complete(cmd, "language", cli.Fixed(languageNames()...))
	cmd.AddCommand(newCodeRun(app), newCodeLs(app), newCodeInterrupt(app), newCodeRestart(app), newCodeClose(app))
	return cmd
}

func runCode(ctx context.Context, opts *CodeOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if opts.Sandbox == "" {
		if opts.Sandbox, err = sharedSandbox(ctx, opts.App, svc, opts.Run.Language); err != nil {
			return err
		}
	}
	show := newCodeView(opts)
	sessions := code.Sessions{Execs: svc.Execs}
	call, err := sessions.Start(ctx, opts.Sandbox, opts.Run, show.event)
	if err != nil {
		return err
	}
	exit, err := opts.App.Follow(ctx, call.Process)
	closeErr := call.Close()
	end, err := call.Result(exit, err)
	if err == nil {
		err = closeErr
	}
	switch {
	case show.err != nil:
		return show.err
	case err != nil:
		if e, ok := errors.AsType[*core.Error](err); ok && code.Gone(err) {
			err = e.WithHint("--new starts another session")
		}
		return err
	case show.timedOut:
		return &cli.ExitError{Code: cli.ExitTimeout, Err: core.Errorf(
			core.KindTimeout, "code", opts.Sandbox, "the code's timeout expired, and it was interrupted",
		)}
	case end.OK:
		return nil
	case show.interrupted:
		return cli.PassThrough(cli.ExitCode(core.KindCanceled))
	}
	return cli.PassThrough(1)
}

// looksLikeFile reports whether a word is meant as a file, so that a missing one is not run as code.
func looksLikeFile(word string) bool {
	return code.LanguageOf(word) != "" && !strings.ContainsAny(word, " \t\n()=")
}
