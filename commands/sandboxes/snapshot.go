package sandboxes

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/commands/stores"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// SnapshotOptions are the options of snapshot.
type SnapshotOptions struct {
	App  *cli.App
	Ref  string
	Name string
	// TTL is how long the provider keeps it; Forever keeps it until its removal.
	TTL     cli.DurationValue
	Forever bool
	// Replace takes the place of a snapshot of that name.
	Replace bool
	// Path is one directory to keep instead of all.
	Path  string
	JSON  bool
	Quiet bool
}

// NewSnapshot makes "sb snapshot".
func NewSnapshot(app *cli.App) *cobra.Command {
	opts := &SnapshotOptions{App: app}
	cmd := &cobra.Command{
		Use:   "snapshot SANDBOX [NAME]",
		Short: "Save a sandbox's files as a snapshot",
		Long: "Save the files of a sandbox as a snapshot and print its id for \"sb launch --snapshot\". Volumes and\n" +
			"secrets are left out.",
		Example: "  sb snapshot dev\n  sb snapshot dev registry.example.com/me/dev:v1\n  sb launch --snapshot " +
			"registry.example.com/me/dev:v1",
		Args:              cli.Between([]string{"SANDBOX"}, "NAME"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			if len(args) > 1 {
				opts.Name = args[1]
			}
			return runSnapshot(cmd.Context(), opts)
		},
	}
	cmd.Flags().Var(&opts.TTL, "ttl", "remove the snapshot after this time (default: the provider's)")
	cmd.Flags().BoolVar(&opts.Forever, "forever", false, "keep the snapshot until you remove it")
	cmd.Flags().BoolVar(&opts.Replace, "replace", false, "replace an existing snapshot NAME")
	cmd.Flags().StringVar(&opts.Path, "path", "", "save only the directory `PATH`, for \"sb image mount\"")
	cli.JSONFlag(cmd, &opts.JSON, "the snapshot: id, provider, sandbox, created, expires, path, size, hint")
	cli.QuietFlag(cmd, &opts.Quiet, "the id")
	cmd.AddCommand(NewSnapshotLs(app), NewSnapshotRm(app))
	return cmd
}

func runSnapshot(ctx context.Context, opts *SnapshotOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	snapshot, err := service.Sandboxes.Snapshot(
		ctx, opts.Ref,
		core.SnapshotOptions{
			Name: opts.Name, TTL: time.Duration(opts.TTL), NoExpiry: opts.Forever, Replace: opts.Replace, Path: opts.Path,
		},
	)
	if err != nil {
		return err
	}
	if err := opts.App.Tell(cli.Made{
		Op: "snapshot", ID: snapshot.ID, Value: snapshot,
		Fact: fmt.Sprintf("the snapshot %s was created", snapshot.ID),
		Next: fmt.Sprintf("sb snapshot rm %s removes it", snapshot.ID),
	}, opts.JSON); err != nil || opts.JSON {
		return err
	}
	if snapshot.Note != "" {
		_, _ = fmt.Fprintf(opts.App.Streams.Err, "%s: %s\n", snapshot.ID, snapshot.Note)
	}
	if !opts.Quiet && opts.App.Streams.ErrTTY() && snapshot.Hint != "" {
		_, _ = fmt.Fprintf(opts.App.Streams.Err, "next: %s\n", snapshot.Hint)
	}
	return nil
}

// NewSnapshotLs makes "sb snapshot ls".
func NewSnapshotLs(app *cli.App) *cobra.Command {
	return cli.NewStoreLs(app, cli.StoreList[core.Snapshot]{
		Short:   "List snapshots",
		Long:    "List the snapshots of all providers or of one. Use \"sb launch --snapshot ID\" to launch from one.",
		Example: "  sb snapshot ls\n  sb snapshot ls --provider docker --json",
		Fields:  "id, name, provider, sandbox, created, expires, path, size, note", Quiet: "ids",
		Headers: []string{"ID", "NAME", "PROVIDER", "SANDBOX", "SIZE", "AGE", "ENDS IN"},
		List: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.Snapshot], error) {
			return svc.Stores.Snapshots(ctx, provider)
		},
		Row: func(app *cli.App, s core.Snapshot) []string {
			return []string{
				s.ID, s.Name, s.Provider, s.Sandbox, cli.SizeText(s.Size), app.Since(s.Created), until(s.Expires, app.Now()),
			}
		},
		ID:   func(s core.Snapshot) string { return s.ID },
		Note: func(s core.Snapshot) string { return s.Note },
	})
}

// until formats the time left, or returns "" without an end.
func until(end, now time.Time) string {
	if end.IsZero() {
		return ""
	}
	return output.Span(end.Sub(now))
}

// NewSnapshotRm makes "sb snapshot rm".
func NewSnapshotRm(app *cli.App) *cobra.Command {
	return cli.NewStoreRm(app, cli.StoreRemoval{
		Noun: "snapshot", Short: "Remove snapshots",
		Long:    "Remove snapshots by id; a snapshot that a sandbox still uses is kept. On a terminal it asks first.",
		Example: "  sb snapshot rm localhost/sb-snapshot/dev:20260102-150405",
		Names:   cli.SnapshotIDs,
		Sizes: func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes {
			found, err := svc.Stores.Snapshots(ctx, provider)
			return stores.SizesOf(found, err, func(kept core.Snapshot) (string, core.Bytes) { return kept.ID, kept.Size })
		},
		Remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.Stores.RemoveSnapshot(ctx, provider, name)
		},
	})
}
