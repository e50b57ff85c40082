package exec

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core/code"
)

// newCodeLs makes "sb code ls".
func newCodeLs(app *cli.App) *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use: "ls [SANDBOX]", Short: "List the sessions of a sandbox",
		Long: "List the code sessions of a sandbox (default: the sandbox \"" + codeSandbox + "\"). A session is idle or busy;\n" +
			"ended after its idle time; or lost, because its process is gone.",
		Example: "  sb code ls\n  sb code ls --json dev",
		Args:    cli.Between(nil, "SANDBOX"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			svc, err := app.Service()
			if err != nil {
				return err
			}
			sessions, err := code.Sessions{Execs: svc.Execs}.List(cmd.Context(), sandboxOf(args))
			if err != nil {
				return err
			}
			return listSessions(app, sessions, asJSON, quiet)
		},
	}
	cli.JSONFlag(cmd, &asJSON, "an array of name, language, state, execution_count, queued, started, used, idle_timeout "+
		"(seconds)")
	cli.QuietFlag(cmd, &quiet, "names")
	return cmd
}

func listSessions(app *cli.App, sessions []code.Session, asJSON, quiet bool) error {
	switch {
	case asJSON:
		return output.List(app.Streams.Out, sessions)
	case quiet:
		for _, s := range sessions {
			if _, err := fmt.Fprintln(app.Streams.Out, s.Name); err != nil {
				return err
			}
		}
		return nil
	}
	now := app.Now()
	table := app.Table("SESSION", "LANGUAGE", "STATE", "RUNS", "USED")
	for _, s := range sessions {
		used := s.Used
		if used.IsZero() {
			used = s.Started
		}
		table.Row(s.Name, string(s.Language), s.State, fmt.Sprint(s.Count), output.Age(used, now))
	}
	return table.Write(app.Streams.Out)
}

// sandboxOf returns the sandbox of the first argument, or the shared one.
func sandboxOf(args []string) string {
	if len(args) == 0 {
		return codeSandbox
	}
	return args[0]
}

// sessionVerb makes a command that does work on one session.
func sessionVerb(
	app *cli.App, cmd *cobra.Command,
	work func(ctx context.Context, sessions code.Sessions, sandbox string, language code.Language, session string) error,
) *cobra.Command {
	var language, session string
	cmd.Use += " [SANDBOX]"
	cmd.Args, cmd.ValidArgsFunction = cli.Between(nil, "SANDBOX"), cli.FirstArg(app.CompleteSandboxes)
	cmd.Flags().StringVarP(&language, "language", "l", string(code.Python), "`LANGUAGE`: python, javascript or bash")
	cmd.Flags().StringVarP(&session, "session", "s", "", "`NAME` of the session (default: \"default\")")
	cli.Complete(cmd, "language", cli.Fixed(string(code.Python), string(code.JavaScript), string(code.Bash)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		known, err := code.ParseLanguage(language)
		if err != nil {
			return err
		}
		svc, err := app.Service()
		if err != nil {
			return err
		}
		return work(cmd.Context(), code.Sessions{Execs: svc.Execs}, sandboxOf(args), known, session)
	}
	return cmd
}

// newCodeInterrupt makes "sb code interrupt".
func newCodeInterrupt(app *cli.App) *cobra.Command {
	return sessionVerb(app, &cobra.Command{
		Use: "interrupt", Short: "Interrupt the code of a session",
		Long: "Raise KeyboardInterrupt in the code that a session runs. Its variables stay, and an idle session is\n" +
			"unchanged.",
		Example: "  sb code interrupt dev\n  sb code interrupt -l javascript --session stats dev",
	}, func(ctx context.Context, s code.Sessions, sandbox string, language code.Language, session string) error {
		return s.Interrupt(ctx, sandbox, language, session)
	})
}

// newCodeRestart makes "sb code restart".
func newCodeRestart(app *cli.App) *cobra.Command {
	return sessionVerb(app, &cobra.Command{
		Use: "restart", Short: "Start a session over",
		Long:    "End a session, even one that hangs, and start another of its name, without variables.",
		Example: "  sb code restart dev",
	}, func(ctx context.Context, s code.Sessions, sandbox string, language code.Language, session string) error {
		call, err := s.Start(ctx, sandbox, code.Run{Language: language, Session: session, New: true}, func(code.Event) {})
		if err != nil {
			return err
		}
		defer func() { _ = call.Close() }()
		_, err = call.Wait(ctx)
		return err
	})
}

// newCodeClose makes "sb code close".
func newCodeClose(app *cli.App) *cobra.Command {
	return sessionVerb(app, &cobra.Command{
		Use: "close", Short: "End a session",
		Long:    "End a session, with its variables and the processes that its code started.",
		Example: "  sb code close dev",
	}, func(ctx context.Context, s code.Sessions, sandbox string, language code.Language, session string) error {
		return s.Close(ctx, sandbox, language, session)
	})
}
