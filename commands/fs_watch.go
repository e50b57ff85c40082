package commands

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

// FsWatchOptions are what fs watch works with.
type FsWatchOptions struct {
	App       *App
	Sandbox   string
	Path      string
	Recursive bool
	JSON      bool
}

// NewFsWatch makes "sb fs watch".
func NewFsWatch(app *App, runF func(context.Context, *FsWatchOptions) error) *cobra.Command {
	opts := &FsWatchOptions{App: app}
	cmd := &cobra.Command{
		Use:   "watch SANDBOX [PATH]",
		Short: "Tell what changes",
		Long: "Tell what changes in a directory of a sandbox or in one file, a line for each change, until it is\n" +
			"interrupted or the sandbox ends. What changes before the watch stands is not told." + exitStatusHelp,
		Example:           "  sb fs watch dev /app\n  sb fs watch -r dev . --json | jq -r .path",
		Args:              between([]string{"SANDBOX"}, "PATH"),
		ValidArgsFunction: app.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Path = args[0], "."
			if len(args) > 1 {
				opts.Path = args[1]
			}
			return orRun(runF, runFsWatch)(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "r", false, "watch the directories below, too")
	jsonFlag(cmd, &opts.JSON, "NDJSON of kind (created, modified, removed, renamed), path, from")
	return cmd
}

func runFsWatch(ctx context.Context, opts *FsWatchOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	out := opts.App.Streams.Out
	encoder := json.NewEncoder(out)
	for event, err := range service.WatchFiles(ctx, opts.Sandbox, opts.Path, opts.Recursive) {
		if err == nil && opts.JSON {
			err = encoder.Encode(event)
		} else if err == nil {
			path := event.Path
			if event.From != "" {
				path = event.From + " -> " + path
			}
			_, err = fmt.Fprintf(out, "%-8s  %s\n", event.Kind, path)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
