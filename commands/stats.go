package commands

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// StatsOptions are what stats works with.
type StatsOptions struct {
	App      *App
	Refs     []string
	Select   SelectFlags
	Interval time.Duration
	Once     bool
	JSON     bool
}

// NewStats makes "sb stats".
func NewStats(app *App, runF func(context.Context, *StatsOptions) error) *cobra.Command {
	opts := &StatsOptions{App: app}
	interval := durationValue(2 * time.Second)
	cmd := &cobra.Command{
		Use:   "stats [SANDBOX...]",
		Short: "Show what sandboxes use",
		Long: "Show what sandboxes use of CPU, memory, processes, disk and network, again and again on a\n" +
			"terminal and once elsewhere or with --no-stream. Without SANDBOX all running ones are shown.\n" +
			"CPU is what was used since the look before, in percent of one core; a frozen sandbox is idle\n" +
			"and uses none." + exitStatusHelp,
		Example:           "  sb stats\n  sb stats --no-stream dev\n  sb stats --json --interval 10s dev",
		ValidArgsFunction: app.completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && opts.Select.given() {
				return opts.Select.check(cmd, args)
			}
			opts.Refs, opts.Interval = args, time.Duration(interval)
			if opts.Interval < 100*time.Millisecond {
				return usagef(cmd, "--interval %s is shorter than 100ms", opts.Interval)
			}
			if !app.Streams.OutTTY() && !cmd.Flags().Changed("interval") {
				opts.Once = true
			}
			return orRun(runF, runStats)(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Once, "no-stream", false, "look once")
	cmd.Flags().Var(&interval, "interval", "time between two looks")
	opts.Select.registerFilters(app, cmd)
	jsonFlag(cmd, &opts.JSON, "NDJSON of sandbox, time, cpu_ns, cpu_limit, memory, memory_limit, processes, disk, disk_limit, net_received, net_sent, frozen")
	return cmd
}

func runStats(ctx context.Context, opts *StatsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	before := map[string]core.Stats{}
	ticker := time.NewTicker(opts.Interval)
	defer ticker.Stop()
	for first := true; ; first = false {
		lookErr := lookAtStats(ctx, opts, service, before, !first)
		if opts.Once || (lookErr != nil && first) {
			return lookErr
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// lookAtStats measures the sandboxes once and keeps the numbers in before.
func lookAtStats(ctx context.Context, opts *StatsOptions, service *core.Service, before map[string]core.Stats, redraw bool) error {
	boxes, err := opts.Select.resolve(ctx, service, opts.Refs)
	failed, rows := []error{err}, 0
	table := opts.App.table("NAME", "CPU", "MEMORY", "PROCS", "DISK", "NET IN", "NET OUT", "DENIED", "STATE")
	for _, box := range boxes {
		if box.State != core.StateRunning && box.State != core.StatePaused && len(opts.Refs) == 0 {
			continue
		}
		s, err := service.Stats(ctx, box.ID)
		if err != nil {
			failed = append(failed, core.Wrap("stats", box.Name, err))
			continue
		}
		if opts.JSON {
			if err := output.Line(opts.App.Streams.Out, s); err != nil {
				return err
			}
			continue
		}
		state := string(box.State)
		if s.Frozen {
			state = "frozen"
		}
		table.Row(box.Name, cpuText(before[box.ID], s, box.Created), output.Used(s.Memory, s.MemoryLimit), strconv.Itoa(s.Processes),
			output.Used(s.Disk, s.DiskLimit), s.NetReceived.String(), s.NetSent.String(), strconv.Itoa(s.Denied), state)
		before[box.ID] = s
		rows++
	}
	if !opts.JSON {
		if redraw && opts.App.Streams.OutTTY() {
			if _, err := fmt.Fprint(opts.App.Streams.Out, "\x1b[H\x1b[2J"); err != nil {
				return err
			}
		}
		if rows > 0 || errors.Join(failed...) == nil {
			if err := table.Write(opts.App.Streams.Out); err != nil {
				return err
			}
		}
	}
	return errors.Join(failed...)
}

// cpuText is the use of CPU between two looks, or since the launch at the first.
func cpuText(before, now core.Stats, created time.Time) string {
	from := before.Time
	if from.IsZero() {
		from = created
	}
	span := now.Time.Sub(from)
	if span <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*float64(now.CPU-before.CPU)/float64(span))
}
