package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core/service"
)

// HistoryOptions are the options of history.
type HistoryOptions struct {
	App    *cli.App
	Select service.HistoryFilter
	Limit  int
	JSON   bool
}

// NewHistory makes "sb history".
func NewHistory(app *cli.App) *cobra.Command {
	opts := &HistoryOptions{App: app}
	var since string
	cmd := &cobra.Command{
		Use:   "history [SANDBOX]",
		Short: "Show past operations from the audit log",
		Long: "Show this user's operations, oldest first, from the shell, the dashboard and MCP. With SANDBOX, show only\n" +
			"its operations, even if it is gone.",
		Example: "  sb history\n  sb history --limit 0 --since 24h dev\n  sb history --json | jq 'select(.result " +
			"!= \"ok\")'",
		Args:              cli.Between(nil, "SANDBOX"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				opts.Select.Sandbox = args[0]
			}
			if opts.Limit < 0 {
				return cli.Usagef(cmd, "--limit %d is negative", opts.Limit)
			}
			var err error
			if opts.Select.Since, err = cli.ParseTime("--since", since, app.Now()); err != nil {
				return err
			}
			return runHistory(cmd.Context(), opts)
		},
	}
	cmd.Flags().IntVar(&opts.Limit, "limit", 50, "show the last `N` operations; 0 shows all")
	cmd.Flags().StringVar(&since, "since", "", "show operations since `TIME`, such as 2026-01-02 or 10m (ago)")
	cli.JSONFlag(
		cmd, &opts.JSON,
		"NDJSON of time, actor, user, pid, op, ref, provider, sandbox, name, args, result (ok, or the kind of the error), "+
			"error, duration_ns",
	)
	return cmd
}

func runHistory(ctx context.Context, opts *HistoryOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	var records []service.AuditRecord
	for record, err := range svc.Records.History(ctx, opts.Select) {
		if damage, ok := errors.AsType[*service.AuditDamage](err); ok {
			_, _ = fmt.Fprintf(opts.App.Streams.Err, "warning: %s\n", output.Clean(damage.Error()))
			continue
		}
		if err != nil {
			return err
		}
		records = append(records, record)
		// Drop records in blocks: a long log does not fill the memory, and no step moves all records.
		if opts.Limit > 0 && len(records) >= 2*opts.Limit {
			records = slices.Delete(records, 0, len(records)-opts.Limit)
		}
	}
	if opts.Limit > 0 && len(records) > opts.Limit {
		records = records[len(records)-opts.Limit:]
	}
	if opts.JSON {
		for _, r := range records {
			if err := output.Line(opts.App.Streams.Out, r); err != nil {
				return err
			}
		}
		return nil
	}
	table := opts.App.Table("TIME", "ACTOR", "OPERATION", "SANDBOX", "RESULT", "TOOK", "WITH")
	for _, r := range records {
		table.Row(r.Time.Local().Format("2006-01-02 15:04:05"), r.Actor, r.Op, cmp.Or(r.Name, r.Ref), r.Result,
			output.Elapsed(r.Duration), argsText(r.Args))
	}
	return table.Write(opts.App.Streams.Out)
}

// argsText returns the arguments of an operation in a few words: its command, or all of them.
func argsText(args map[string]any) string {
	if command, ok := args["command"].([]any); ok {
		words := make([]string, len(command))
		for i, word := range command {
			words[i] = fmt.Sprint(word)
		}
		return cli.ShellText(words)
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(args)) {
		if _, nested := args[key].(map[string]any); !nested {
			parts = append(parts, fmt.Sprintf("%s=%v", key, args[key]))
		}
	}
	return strings.Join(parts, " ")
}
