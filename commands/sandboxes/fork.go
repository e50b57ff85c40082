package sandboxes

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// ForkOptions are the options of fork.
type ForkOptions struct {
	App   *cli.App
	Ref   string
	Name  string
	Count int
	JSON  bool
	Quiet bool
}

// NewFork makes "sb fork".
func NewFork(app *cli.App) *cobra.Command {
	opts := &ForkOptions{App: app}
	cmd := &cobra.Command{
		Use:   "fork SANDBOX",
		Short: "Copy a running sandbox, processes and memory included",
		Long: "Copy a running sandbox, memory and files included, and print the id of the copy. The entry command\n" +
			"and commands of \"sb exec --detach\" continue in the copy; volumes are shared.",
		Example:           "  sb fork dev --name dev-2\n  sb fork dev --count 3 --quiet",
		Args:              cli.Exactly("SANDBOX"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			if opts.Count < 1 {
				return core.Errorf(core.KindUsage, "fork", "--count", "%d is not at least 1", opts.Count)
			}
			return runFork(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVarP(
		&opts.Name, "name", "n", "",
		"`NAME` of the fork; with --count the forks are NAME-1, NAME-2 … (default: generated)",
	)
	cmd.Flags().IntVar(&opts.Count, "count", 1, "number of forks; if one fails, the earlier ones remain")
	cli.JSONFlag(cmd, &opts.JSON, "an array of sandboxes as in inspect")
	cli.QuietFlag(cmd, &opts.Quiet, "the ids")
	return cmd
}

func runFork(ctx context.Context, opts *ForkOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	var all []cli.Made
	for n := 1; n <= opts.Count; n++ {
		name := opts.Name
		if name != "" && opts.Count > 1 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		fork, forkErr := svc.Sandboxes.Fork(ctx, opts.Ref, service.ForkOptions{Name: name})
		if forkErr != nil {
			err = forkErr
			break
		}
		made := launched("fork", fork)
		if opts.JSON {
			all = append(all, made)
			continue
		}
		if err := opts.App.Tell(made, false); err != nil {
			return err
		}
		if !opts.Quiet && opts.App.Streams.ErrTTY() {
			_, _ = fmt.Fprintf(opts.App.Streams.Err, "%s runs on %s; next: sb shell %s\n", fork.Name, fork.Provider, fork.Name)
			for _, port := range fork.Ports {
				_, _ = fmt.Fprintf(opts.App.Streams.Err, "port %d is at %s\n", port.Sandbox, port.Address)
			}
		}
	}
	if opts.JSON {
		err = errors.Join(err, opts.App.TellAll(all))
	}
	return err
}
