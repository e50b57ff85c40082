package commands

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// FsCatOptions are what fs cat works with.
type FsCatOptions struct {
	App     *App
	Sandbox string
	Paths   []string
}

// NewFsCat makes "sb fs cat".
func NewFsCat(app *App, runF func(context.Context, *FsCatOptions) error) *cobra.Command {
	opts := &FsCatOptions{App: app}
	return &cobra.Command{
		Use:               "cat SANDBOX PATH...",
		Short:             "Write files to stdout",
		Long:              "Write the content of files of a sandbox to stdout, one after the other, untouched." + exitStatusHelp,
		Example:           "  sb fs cat dev /etc/hosts\n  sb fs cat dev plot.png > plot.png",
		Args:              atLeast("SANDBOX", "PATH"),
		ValidArgsFunction: app.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Paths = args[0], args[1:]
			return orRun(runF, runFsCat)(cmd.Context(), opts)
		},
	}
}

func runFsCat(ctx context.Context, opts *FsCatOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	for _, path := range opts.Paths {
		if err := catFile(ctx, svc, opts.Sandbox, path, opts.App.Streams.Out); err != nil {
			return err
		}
	}
	return nil
}

func catFile(ctx context.Context, svc *service.Service, sandbox, path string, out io.Writer) error {
	content, err := svc.ReadFile(ctx, sandbox, path)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(out, content)
	return core.Wrap("read", path, err)
}
