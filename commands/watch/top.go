package watch

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui"
)

// TopOptions are the options of top.
type TopOptions struct {
	App    *cli.App
	Select cli.SelectFlags
	Theme  string
	Once   bool
	JSON   bool
}

// NewTop makes "sb top".
func NewTop(app *cli.App) *cobra.Command {
	opts := &TopOptions{App: app}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch all sandboxes in one table",
		Long: "Watch all sandboxes and their resource usage in one live table, with the keys of \"sb ui\". If stdout\n" +
			"is not a terminal, the table is printed once.",
		Example: "  sb top\n  sb top --once\n  sb top --json --app ci",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Once = opts.Once || opts.JSON || !app.Streams.OutTTY()
			if !opts.Once && opts.Select.Given() {
				return cli.Usagef(cmd, "--all, --label, --app and --provider go with --once; in the live table press / to filter")
			}
			if opts.Once {
				return TopOnce(cmd.Context(), opts)
			}
			return watched(cmd.Context(), app, func(ctx context.Context, equip func(
				*tui.Options,
			),
			) error {
				return RunTop(ctx, opts, equip)
			})
		},
	}
	cmd.Flags().BoolVar(&opts.Once, "once", false, "print the table once")
	opts.Select.Register(app, cmd)
	themeFlag(cmd, &opts.Theme)
	cli.JSONFlag(
		cmd, &opts.JSON, "an array of sandbox (as in inspect) and stats (as in stats, absent if not measured)",
	)
	return cmd
}

// RunTop shows the table until it is closed.
func RunTop(ctx context.Context, opts *TopOptions, equip func(*tui.Options)) error {
	options, err := Dashboard(opts.App, opts.Theme)
	if err != nil {
		return err
	}
	equip(&options)
	options.TableOnly = true
	return tui.Run(ctx, options)
}

// topRow is one sandbox with its usage.
type topRow struct {
	Sandbox core.Sandbox `json:"sandbox"`
	Stats   *core.Stats  `json:"stats,omitempty"`

	cpu string
}

// TopOnce prints the table once.
func TopOnce(ctx context.Context, opts *TopOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	filter, err := opts.Select.Filter()
	if err != nil {
		return err
	}
	filter.All = opts.Select.All
	listing, err := svc.Sandboxes.List(ctx, filter)
	if err != nil {
		return err
	}
	rows, err := measure(ctx, svc, listing.Sandboxes)
	if err != nil {
		return err
	}
	if opts.JSON {
		err = output.List(opts.App.Streams.Out, rows)
	} else {
		err = writeTop(opts.App, rows)
	}
	return errors.Join(err, opts.App.WarnUnavailable(listing.Failures, filter.Provider != ""))
}

// measure measures all running sandboxes twice.
func measure(ctx context.Context, svc *service.Service, boxes []core.Sandbox) ([]topRow, error) {
	rows := make([]topRow, len(boxes))
	look := func() {
		const atOnce = 8
		slots := make(chan struct{}, atOnce)
		var all sync.WaitGroup
		for i, box := range boxes {
			rows[i].Sandbox = box
			if box.State != core.StateRunning {
				continue
			}
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				// A sandbox that ended since, or a provider that does not measure, has no numbers.
				if stats, err := svc.Sandboxes.Stats(ctx, box.ID); err == nil {
					if before := rows[i].Stats; before != nil {
						rows[i].cpu = PercentText(CPUPercent(*before, stats))
					}
					rows[i].Stats = &stats
				}
			})
		}
		all.Wait()
	}
	look()
	if err := pause(ctx, firstSpan); err != nil {
		return nil, err
	}
	look()
	return rows, nil
}

func writeTop(app *cli.App, rows []topRow) error {
	now := app.Now()
	table := app.Table("NAME", "STATE", "PROVIDER", "APP", "IMAGE", "AGE", "ENDS IN", "CPU", "MEMORY", "ACTIVE")
	for _, row := range rows {
		box, memory := row.Sandbox, ""
		if row.Stats != nil {
			memory = output.Used(row.Stats.Memory, row.Stats.MemoryLimit)
		}
		table.Row(box.Name, cli.StateText(box), box.Provider, box.App, cli.ImageText(box), output.Age(box.Created, now),
			cli.EndsIn(box, now),
			row.cpu, memory, output.Age(box.LastActive, now))
	}
	return table.Write(app.Streams.Out)
}
