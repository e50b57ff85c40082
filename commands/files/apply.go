package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/core/transfer"
)

// ApplyOptions are the options of apply.
type ApplyOptions struct {
	App        *cli.App
	Sandbox    string
	Paths      []string
	Yes        bool
	DryRun     bool
	Force      bool
	IncludeGit bool
	JSON       bool
}

// NewApply makes "sb apply".
func NewApply(app *cli.App) *cobra.Command {
	opts := &ApplyOptions{App: app}
	cmd := &cobra.Command{
		Use:   "apply SANDBOX [PATH...]",
		Short: "Make a sandbox's changes on this machine",
		Long: "Make the changes that \"sb diff\" lists in the directories of this machine that were pushed or mounted with\n" +
			":cow. The changes are listed before the question, and a file that also changed on this machine stays.",
		Example:           "  sb apply dev\n  sb apply dev /srv/app/main.go --yes\n  sb apply dev --dry-run",
		Args:              cli.AtLeast("SANDBOX"),
		ValidArgsFunction: app.CompletePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Paths = args[0], args[1:]
			return runApply(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "list the changes and conflicts, and change nothing")
	cmd.Flags().BoolVar(&opts.Force, "force", false, "also replace files that changed on this machine")
	cmd.Flags().BoolVar(&opts.IncludeGit, "include-git", false,
		"also write .git; Git runs programs that are named there")
	cli.JSONFlag(cmd, &opts.JSON, "an array of source, done, left")
	return cmd
}

// applied is the result for one directory.
type applied struct {
	Source string `json:"source"`
	transfer.Applied
}

func runApply(ctx context.Context, opts *ApplyOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	chosen, rest, err := selected(ctx, svc, opts.Sandbox, opts.Paths)
	if err != nil {
		return err
	}
	if len(rest) > 0 || len(chosen) == 0 {
		subject := opts.Sandbox
		if len(rest) > 0 {
			subject = rest[0]
		}
		return core.Errorf(core.KindNotFound, "apply", subject,
			"no directory of this machine was pushed there, and none is mounted copy-on-write").
			WithHint("copy files out instead: sb pull %s:PATH .", opts.Sandbox)
	}
	results := []applied{}
	var failed error
	for _, selection := range chosen {
		result, err := applyOne(ctx, svc, opts, selection)
		if result != nil {
			results = append(results, applied{selection.Origin.Source, *result})
			failed = errors.Join(failed, result.ConflictError(selection.Origin.Source))
		}
		if err != nil {
			failed = errors.Join(failed, err)
			break
		}
	}
	if opts.JSON {
		return errors.Join(failed, output.JSON(opts.App.Streams.Out, results))
	}
	return failed
}

// applyOne reads the changes below one directory, shows them, asks, and makes them. The changes that it makes are those
// that it showed, whatever the sandbox does meanwhile.
func applyOne(
	ctx context.Context, svc *service.Service, opts *ApplyOptions, selection transfer.Selection,
) (_ *transfer.Applied, err error) {
	review, err := transfer.NewReview(ctx, svc.Files, transfer.ReviewRequest{
		Sandbox: opts.Sandbox, Origin: selection.Origin, Paths: selection.Paths, IncludeGit: opts.IncludeGit, Content: true,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, review.Close()) }()
	changes := listed(selection, review)
	if !opts.JSON {
		if err := writeChanges(opts.App, changes, false); err != nil {
			return nil, err
		}
	}
	if review.Git > 0 {
		_, _ = fmt.Fprintf(opts.App.Streams.Err, "left out: %s of .git; --include-git writes them\n",
			output.Count(review.Git, "change", "changes"))
	}
	if len(changes) == 0 {
		if opts.App.Streams.ErrTTY() {
			_, _ = fmt.Fprintln(opts.App.Streams.Err, "no changes")
		}
		return &transfer.Applied{Done: []string{}}, nil
	}
	if opts.DryRun {
		return nil, nil //nolint:nilnil // nothing was done
	}
	if !opts.Yes {
		question := fmt.Sprintf("Apply %s to %s?", output.Count(len(changes), "change", "changes"), selection.Origin.Source)
		if err := cli.Confirm(opts.App, question, "--yes"); err != nil {
			return nil, err
		}
	}
	result, err := review.Apply(transfer.ApplyOptions{Force: opts.Force})
	return &result, core.Wrap("apply", selection.Origin.Source, err)
}
