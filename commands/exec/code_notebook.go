package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// NotebookOptions are the options of code run.
type NotebookOptions struct {
	App     *cli.App
	Sandbox string
	File    string
	// Output is the file for the result; "" is File.
	Output string
	// Session, if set, is used and stays. Otherwise the notebook has a session of its own.
	Session     string
	Timeout     cli.DurationValue
	AllowErrors bool
}

// newCodeRun makes "sb code run".
func newCodeRun(app *cli.App) *cobra.Command {
	opts := &NotebookOptions{App: app}
	cmd := &cobra.Command{
		Use: "run [SANDBOX] NOTEBOOK", Short: "Run a Jupyter notebook",
		Long: "Run the code cells of a notebook in a new session, and write their outputs back to the file. The first\n" +
			"cell with an error ends the run with exit code 1; the outputs so far are written.",
		Example: "  sb code run dev analysis.ipynb\n  sb code run -o result.ipynb --timeout 10m analysis.ipynb",
		Args:    cli.Between([]string{"NOTEBOOK"}, "NOTEBOOK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.File = "", args[len(args)-1]
			if len(args) == 2 {
				opts.Sandbox = args[0]
			}
			return runNotebook(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(&opts.Output, "output", "o", "", "write the result to `FILE` and leave NOTEBOOK unchanged")
	cmd.Flags().StringVarP(&opts.Session, "session", "s", "", "run in the session `NAME`, which stays")
	cmd.Flags().Var(&opts.Timeout, "timeout", "interrupt a cell after this time")
	cmd.Flags().BoolVar(&opts.AllowErrors, "allow-errors", false, "continue after cells with errors")
	return cmd
}

func runNotebook(ctx context.Context, opts *NotebookOptions) (err error) {
	text, err := os.ReadFile(opts.File)
	if err != nil {
		return core.Wrap("code", opts.File, err)
	}
	notebook, err := code.ReadNotebook(opts.File, text)
	if err != nil {
		return err
	}
	run := code.Run{Session: opts.Session, Timeout: time.Duration(opts.Timeout)}
	if run.Language, err = notebook.Language(); err != nil {
		return err
	}
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if opts.Sandbox == "" {
		if opts.Sandbox, err = sharedSandbox(ctx, opts.App, svc, run.Language); err != nil {
			return err
		}
	}
	sessions := code.Sessions{Execs: svc.Execs}
	if opts.Session == "" {
		run.Session = "notebook-" + core.NewName()
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.CleanupTimeout)
			defer cancel()
			closeErr := sessions.Close(ctx, opts.Sandbox, run.Language, run.Session)
			if err == nil && !errors.Is(closeErr, core.KindNotFound) {
				err = closeErr
			}
		}()
	}
	runErr := runCells(ctx, opts, notebook, sessions, run)
	result, err := notebook.Text()
	if err != nil {
		return err
	}
	return errors.Join(runErr, opts.write(result))
}

// write replaces the notebook, or the file of --output, and keeps its mode.
func (opts *NotebookOptions) write(text []byte) error {
	target, mode := opts.File, fs.FileMode(0o644)
	if opts.Output != "" {
		target = opts.Output
	}
	if resolved, err := filepath.EvalSymlinks(target); err == nil {
		target = resolved
	}
	if info, err := os.Stat(target); err == nil {
		mode = info.Mode().Perm()
	}
	return core.Wrap("code", target, atomicfile.Write(target, text, mode))
}

func runCells(
	ctx context.Context, opts *NotebookOptions, notebook *code.Notebook, sessions code.Sessions, run code.Run,
) error {
	report, stop := opts.App.Progress()
	defer stop()
	failed := 0
	for cell := range notebook.Cells() {
		report(core.Progress{Step: fmt.Sprintf("cell %d of %d", cell+1, notebook.Cells())})
		ok, err := notebook.RunCell(ctx, sessions, opts.Sandbox, run, cell, nil)
		if err != nil {
			return err
		}
		if !ok {
			failed = cell + 1
			if !opts.AllowErrors {
				break
			}
		}
	}
	if failed > 0 && !opts.AllowErrors {
		return &cli.ExitError{Code: 1, Err: core.Errorf(
			core.KindConflict, "code", opts.File, "code cell %d raised an error; its output is in the notebook", failed,
		)}
	}
	return nil
}
