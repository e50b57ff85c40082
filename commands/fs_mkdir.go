package commands

import (
	"context"

	"github.com/spf13/cobra"
)

// FsMkdirOptions are what fs mkdir works with.
type FsMkdirOptions struct {
	App     *App
	Sandbox string
	Paths   []string
	Parents bool
}

// NewFsMkdir makes "sb fs mkdir".
func NewFsMkdir(app *App, runF func(context.Context, *FsMkdirOptions) error) *cobra.Command {
	opts := &FsMkdirOptions{App: app}
	cmd := &cobra.Command{
		Use:               "mkdir SANDBOX PATH...",
		Short:             "Make directories",
		Long:              "Make directories in a sandbox. With -p missing parents are made and one that exists is fine." + exitStatusHelp,
		Example:           "  sb fs mkdir -p dev /srv/data/in",
		Args:              atLeast("SANDBOX", "PATH"),
		ValidArgsFunction: app.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Paths = args[0], args[1:]
			return orRun(runF, runFsMkdir)(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Parents, "parents", "p", false, "make missing parents; one that exists is fine")
	return cmd
}

func runFsMkdir(ctx context.Context, opts *FsMkdirOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	for _, path := range opts.Paths {
		if err := service.Mkdir(ctx, opts.Sandbox, path, opts.Parents); err != nil {
			return err
		}
	}
	return nil
}
