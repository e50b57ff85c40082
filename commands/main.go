package commands

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// Process is what a program has from its operating system.
type Process struct {
	Streams   *iostreams.Streams
	LookupEnv func(key string) (value string, ok bool)
	Signals   *Signals
	Build     Build
	// Become replaces the process by another program with the same arguments and
	// environment. It returns only when it fails.
	Become func(program string) error
	// ServeMCP serves the Model Context Protocol; nil becomes sb-mcp for that.
	ServeMCP setup.Serve
}

// Main runs sb with args, without the program's name, and returns its exit code.
func Main(ctx context.Context, process Process, args []string) int {
	app, closeApp := newApp(process)
	defer closeApp()
	return execute(ctx, app, args)
}

// execute runs the command that args name and maps its error to an exit code.
func execute(ctx context.Context, app *App, args []string) int {
	ctx, stop := app.Signals.attach(ctx)
	defer stop()
	root := NewRoot(app)
	root.SetArgs(args)
	help := &sink{w: app.Streams.Out}
	root.SetOut(help)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = help.err
	}
	if err == nil {
		return exitOK
	}
	if cmd != nil && cmd.Annotations[guestCode] != "" {
		err = ownFailure(err)
	}
	code := codeOf(ctx, err)
	if interrupted(ctx, err) {
		return code // whoever pressed Ctrl-C knows
	}
	printError(app.Streams.Err, err, code, wantsJSON(cmd))
	return code
}

func wantsJSON(cmd *cobra.Command) bool {
	if cmd == nil {
		return false
	}
	asJSON, err := cmd.Flags().GetBool("json")
	return err == nil && asJSON
}

// sink remembers why it could not write: cobra, which prints help and completions, drops that.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil && s.err == nil {
		s.err = core.Errorf(core.KindOf(err), "write", "", "the output is lost: %w", err)
	}
	return n, err
}
