package exec

import (
	"context"
	"strings"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
)

// parseLanguage returns the language of a name, with or without sessions.
func parseLanguage(name string) (code.Language, error) {
	if language, ok := code.ParseProgram(name); ok {
		return language, nil
	}
	language, err := code.ParseLanguage(name)
	if err != nil {
		return "", core.Errorf(core.KindUsage, "code", "", "%q is not a language that sb code runs", name).
			WithHint("sb help code lists the languages")
	}
	return language, nil
}

// ofPrograms lists the languages without sessions.
func ofPrograms() string {
	var names []string
	for _, l := range code.ProgramLanguages() {
		names = append(names, string(l))
	}
	return strings.Join(names, ", ")
}

// languageNames returns the names of all languages.
func languageNames() []string {
	var names []string
	for _, l := range append(code.Languages(), code.ProgramLanguages()...) {
		names = append(names, string(l))
	}
	return names
}

// runProgram runs code of a language without sessions.
func runProgram(ctx context.Context, opts *CodeOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	program := code.Program{Language: opts.Run.Language, Code: opts.Run.Code}
	spec, err := program.Command(core.ExecSpec{
		Env: opts.Run.Env, Secrets: opts.Run.Secrets, Workdir: opts.Run.Workdir, User: opts.Run.User,
		Timeout: opts.Run.Timeout, Stdout: opts.App.Streams.Out, Stderr: opts.App.Streams.Err,
	})
	if err != nil {
		return err
	}
	if opts.Sandbox == "" {
		if opts.Sandbox, err = sharedSandbox(ctx, opts.App, svc, program.Language); err != nil {
			return err
		}
	}
	show := newCodeView(opts)
	if opts.JSON {
		spec.Stdout, spec.Stderr = code.Output(show.event)
		show.event(code.Event{Type: code.EventBegin})
	}
	process, err := svc.Execs.Start(ctx, opts.Sandbox, spec)
	if err != nil {
		return opts.App.Result(ctx, svc, opts.Sandbox, core.Exit{}, err)
	}
	defer process.Close()
	exit, err := opts.App.Follow(ctx, process)
	if err != nil {
		return opts.App.Result(ctx, svc, opts.Sandbox, exit, err)
	}
	if opts.JSON {
		if exit.TimedOut {
			show.event(code.Event{Type: code.EventTimeout})
		}
		show.event(code.Event{Type: code.EventEnd, OK: exit.Code == cli.ExitOK})
	}
	if show.err != nil {
		return show.err
	}
	if err := program.Explain(ctx, svc.Execs, opts.Sandbox, exit); err != nil {
		return err
	}
	return opts.App.Result(ctx, svc, opts.Sandbox, exit, nil)
}
