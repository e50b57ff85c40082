package watch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// StatsOptions are the options of stats.
type StatsOptions struct {
	App      *cli.App
	Refs     []string
	Select   cli.SelectFlags
	Interval time.Duration
	Once     bool
	JSON     bool
}

// NewStats makes "sb stats".
func NewStats(app *cli.App) *cobra.Command {
	opts := &StatsOptions{App: app}
	interval := cli.DurationValue(2 * time.Second)
	cmd := &cobra.Command{
		Use:   "stats [SANDBOX...]",
		Short: "Show resource usage of sandboxes",
		Long: "Show CPU, memory, processes, disk and network of sandboxes (default: of all running ones). CPU is\n" +
			"the use since the previous sample, in percent of one core.",
		Example:           "  sb stats\n  sb stats --no-stream dev\n  sb stats --json --interval 10s dev",
		ValidArgsFunction: app.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && opts.Select.Given() {
				return opts.Select.Check(cmd, args)
			}
			opts.Refs, opts.Interval = args, time.Duration(interval)
			if opts.Interval < 100*time.Millisecond {
				return cli.Usagef(cmd, "--interval %s is shorter than 100ms", opts.Interval)
			}
			if !app.Streams.OutTTY() && !cmd.Flags().Changed("interval") {
				opts.Once = true
			}
			return runStats(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Once, "no-stream", false, "print one sample")
	cmd.Flags().Var(&interval, "interval", "time between samples")
	opts.Select.RegisterFilters(app, cmd)
	cli.JSONFlag(
		cmd, &opts.JSON,
		"NDJSON of sandbox, time, cpu_percent (since the previous sample), cpu_ns (since the launch), cpu_limit, memory, "+
			"memory_limit, processes, disk, disk_limit, net_received, net_sent, frozen",
	)
	return cmd
}

func runStats(ctx context.Context, opts *StatsOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	before := map[string]core.Stats{}
	// One measurement returns totals since the start. Two return the current use.
	if _, err := measureStats(ctx, opts, svc, before); err != nil && len(before) == 0 {
		return err
	}
	if len(before) > 0 {
		if err := pause(ctx, min(opts.Interval, firstSpan)); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(opts.Interval)
	defer ticker.Stop()
	for first := true; ; first = false {
		lookErr := lookAtStats(ctx, opts, svc, before, !first)
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

// firstSpan is the time between the two measurements behind the first numbers.
const firstSpan = 500 * time.Millisecond

// pause waits for d or for the end of ctx, and returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// statsReport is the usage of one sandbox, as JSON.
type statsReport struct {
	core.Stats
	// CPUPercent is the CPU time since the previous measurement, in percent of one core. It is absent in the first.
	CPUPercent *float64 `json:"cpu_percent,omitempty"`

	box core.Sandbox
}

// measureStats measures the sandboxes once and keeps the numbers in before. The error joins the failures.
func measureStats(
	ctx context.Context, opts *StatsOptions, svc *service.Service, before map[string]core.Stats,
) ([]statsReport, error) {
	boxes, err := opts.Select.Resolve(ctx, opts.App, svc, opts.Refs)
	failed := []error{err}
	var reports []statsReport
	for _, box := range boxes {
		if box.State != core.StateRunning && box.State != core.StatePaused && len(opts.Refs) == 0 {
			continue
		}
		s, err := svc.Sandboxes.Stats(ctx, box.ID)
		if err != nil {
			failed = append(failed, core.Wrap("stats", box.Name, err))
			continue
		}
		report := statsReport{Stats: s, box: box}
		if last, looked := before[box.ID]; looked {
			report.CPUPercent = CPUPercent(last, s)
		}
		before[box.ID] = s
		reports = append(reports, report)
	}
	return reports, errors.Join(failed...)
}

// lookAtStats measures the sandboxes once more and prints their usage.
func lookAtStats(
	ctx context.Context, opts *StatsOptions, svc *service.Service, before map[string]core.Stats, redraw bool,
) error {
	reports, failed := measureStats(ctx, opts, svc, before)
	if opts.JSON {
		for _, report := range reports {
			if err := output.Line(opts.App.Streams.Out, report); err != nil {
				return err
			}
		}
		return failed
	}
	table := opts.App.Table("NAME", "CPU", "MEMORY", "PROCS", "DISK", "NET IN", "NET OUT", "DENIED", "STATE")
	for _, s := range reports {
		state := string(s.box.State)
		if s.Frozen {
			state = "frozen"
		}
		table.Row(s.box.Name, PercentText(s.CPUPercent), output.Used(s.Memory, s.MemoryLimit), strconv.Itoa(s.Processes),
			output.Used(s.Disk, s.DiskLimit), s.NetReceived.String(), s.NetSent.String(), strconv.Itoa(s.Denied), state)
	}
	if redraw && opts.App.Streams.OutTTY() {
		if _, err := fmt.Fprint(opts.App.Streams.Out, "\x1b[H\x1b[2J"); err != nil {
			return err
		}
	}
	if len(reports) > 0 || failed == nil {
		if err := table.Write(opts.App.Streams.Out); err != nil {
			return err
		}
	}
	return failed
}

// CPUPercent returns the CPU time between two measurements in percent of one core. It is nil if they are not
// comparable.
func CPUPercent(before, now core.Stats) *float64 {
	span := now.Time.Sub(before.Time)
	used := now.CPU - before.CPU
	if span <= 0 || used < 0 { // it restarted in between
		return nil
	}
	if now.Frozen && before.Frozen {
		used = 0 // the cost of the measurement does not count
	}
	percent := math.Round(1000*float64(used)/float64(span)) / 10
	return &percent
}

// PercentText is a use of CPU in a table.
func PercentText(percent *float64) string {
	if percent == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", *percent)
}
