package commands

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// Main runs sb with args, without the program's name, and returns its exit code.
func Main(ctx context.Context, process cli.Process, args []string) int {
	app, closeApp := cli.NewApp(process)
	defer closeApp()
	return execute(ctx, app, args)
}

// execute runs the command that args name and maps its error to an exit code.
func execute(ctx context.Context, app *cli.App, args []string) int {
	ctx, stop := app.Signals.Attach(ctx)
	defer stop()
	root := newRoot(app, args)
	root.SetArgs(args)
	help := &sink{w: app.Streams.Out}
	root.SetOut(help)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = help.err
	}
	if err == nil {
		return cli.ExitOK
	}
	if cmd != nil && cmd.Annotations[cli.GuestCode] != "" {
		err = cli.OwnFailure(err)
	}
	code := cli.CodeOf(ctx, err)
	if cli.Interrupted(ctx, err) {
		return code // the user pressed Ctrl-C, so no message is needed
	}
	cli.PrintError(app.Streams.Err, err, code, wantsJSON(cmd))
	return code
}

func wantsJSON(cmd *cobra.Command) bool {
	if cmd == nil {
		return false
	}
	asJSON, err := cmd.Flags().GetBool("json")
	return err == nil && asJSON
}

// sink records the error of a write. cobra, which prints help and completions, drops such errors.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil && s.err == nil {
		s.err = core.Errorf(core.KindOf(err), "write", "", "the output could not be written: %w", err)
	}
	return n, err
}
