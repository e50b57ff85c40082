package commands

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// FsRmOptions are what fs rm works with.
type FsRmOptions struct {
	App       *App
	Sandbox   string
	Paths     []string
	Recursive bool
	Force     bool
}

// NewFsRm makes "sb fs rm".
func NewFsRm(app *App, runF func(context.Context, *FsRmOptions) error) *cobra.Command {
	opts := &FsRmOptions{App: app}
	cmd := &cobra.Command{
		Use:               "rm SANDBOX PATH...",
		Aliases:           []string{"remove"},
		Short:             "Remove files",
		Long:              "Remove files and empty directories of a sandbox, with -r whole trees. Links are not followed." + exitStatusHelp,
		Example:           "  sb fs rm dev /tmp/hello\n  sb fs rm -r dev build",
		Args:              atLeast("SANDBOX", "PATH"),
		ValidArgsFunction: app.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Paths = args[0], args[1:]
			return orRun(runF, runFsRm)(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "r", false, "remove directories with all that is in them")
	cmd.Flags().BoolVarP(&opts.Force, "force", "f", false, "what is not there is no error")
	return cmd
}

func runFsRm(ctx context.Context, opts *FsRmOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	if opts.Force { // a missing sandbox is an error all the same
		if _, err := service.Resolve(ctx, opts.Sandbox); err != nil {
			return err
		}
	}
	var failed []error
	for _, path := range opts.Paths {
		err := service.Remove(ctx, opts.Sandbox, path, opts.Recursive)
		if err != nil && (!opts.Force || core.KindOf(err) != core.KindNotFound) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
