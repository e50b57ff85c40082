package commands

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
)

// KeyLsOptions are what key ls works with.
type KeyLsOptions struct {
	App  *App
	All  bool
	JSON bool
}

// NewKeyLs makes "sb key ls".
func NewKeyLs(app *App, runF func(context.Context, *KeyLsOptions) error) *cobra.Command {
	opts := &KeyLsOptions{App: app}
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Short:   "List API keys",
		Long:    "List the API keys that are valid." + exitStatusHelp,
		Example: "  sb key ls\n  sb key ls --all --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orRun(runF, runKeyLs)(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.All, "all", "a", false, "include revoked and expired ones")
	jsonFlag(cmd, &opts.JSON, "id, owner, scope, state, created, expires, max_sandboxes, rate")
	return cmd
}

func runKeyLs(_ context.Context, opts *KeyLsOptions) error {
	store, err := opts.App.keys()
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	now := opts.App.Now()
	reports := []keyReport{}
	for _, key := range all {
		if opts.All || key.Usable(now) {
			reports = append(reports, reportKey(key, now))
		}
	}
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, reports)
	}
	table := opts.App.table("ID", "OWNER", "SCOPE", "STATE", "EXPIRES")
	for _, report := range reports {
		scopes := make([]string, len(report.Scope))
		for i, scope := range report.Scope {
			scopes[i] = string(scope)
		}
		expires := "never"
		if !report.Expires.IsZero() {
			expires = report.Expires.Format(time.DateTime)
		}
		table.Row(report.ID, report.Owner, strings.Join(scopes, ","), report.State, expires)
	}
	return table.Write(opts.App.Streams.Out)
}
