package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/graph"
	"github.com/seed-0724f904/sb/tui/internal/guesttext"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// sparkWidth is the number of samples in a sparkline.
const sparkWidth = 7

// column is one column of the sandbox table.
type column struct {
	id, title string
	// least and most bound the width in cells. Spare cells are distributed by weight.
	least, most, weight int
	// rank orders the columns when they do not fit: the highest is hidden first.
	rank    int
	right   bool
	compare func(a, b *entry) int
	text    func(e *entry, now time.Time) string
	paint   func(s *theme.Styles, e *entry) theme.Paint
	// wanted reports whether a sandbox has a value for this column; nil means always.
	wanted func(e *entry) bool
}

// columns returns all columns in display order.
func columns() []column {
	text := func(s *theme.Styles, _ *entry) theme.Paint { return s.Text }
	faint := func(s *theme.Styles, _ *entry) theme.Paint { return s.Faint }
	strong := func(s *theme.Styles, _ *entry) theme.Paint { return s.Strong }
	info := func(s *theme.Styles, _ *entry) theme.Paint { return s.Info }
	warn := func(s *theme.Styles, _ *entry) theme.Paint { return s.Warn }
	processor := func(s *theme.Styles, _ *entry) theme.Paint { return s.Processor }
	memory := func(s *theme.Styles, _ *entry) theme.Paint { return s.Memory }
	return []column{
		{
			id: "state", title: "STATE", least: 10, most: 16, weight: 1, rank: 2, paint: statePaint,
			text:    stateText,
			compare: func(a, b *entry) int { return cmp.Or(cmp.Compare(stateRank(a), stateRank(b)), byName(a, b)) },
		},
		{
			id: "name", title: "NAME", least: 12, most: 40, weight: 4, rank: 1, paint: strong,
			text: func(e *entry, _ time.Time) string { return e.search[0] }, compare: byName,
		},
		{
			id: "provider", title: "PROVIDER", least: 8, most: 10, rank: 6, paint: faint,
			text:    func(e *entry, _ time.Time) string { return e.search[2] },
			compare: func(a, b *entry) int { return cmp.Compare(a.box.Provider, b.box.Provider) },
		},
		{
			id: "app", title: "APP", least: 6, most: 20, weight: 1, rank: 9, paint: text,
			text:    func(e *entry, _ time.Time) string { return e.search[3] },
			compare: func(a, b *entry) int { return cmp.Compare(a.box.App, b.box.App) },
			wanted:  func(e *entry) bool { return e.box.App != "" },
		},
		{
			id: "image", title: "IMAGE", least: 8, most: 40, weight: 2, rank: 8, paint: text,
			text:    func(e *entry, _ time.Time) string { return e.search[4] },
			compare: func(a, b *entry) int { return cmp.Compare(a.box.Image, b.box.Image) },
		},
		{
			id: "gpu", title: "GPU", least: 6, most: 12, weight: 1, rank: 7, paint: info,
			text: func(e *entry, _ time.Time) string { return e.search[5] },
			compare: func(a, b *entry) int {
				return cmp.Or(cmp.Compare(a.box.GPU.Type, b.box.GPU.Type), cmp.Compare(a.box.GPU.Count, b.box.GPU.Count))
			},
			wanted: func(e *entry) bool { return !e.box.GPU.IsZero() },
		},
		{
			id: "age", title: "AGE", least: 6, most: 7, rank: 3, right: true, paint: faint,
			text:    func(e *entry, now time.Time) string { return format.Since(e.box.Created, now) },
			compare: func(a, b *entry) int { return b.box.Created.Compare(a.box.Created) },
		},
		{
			id: "left", title: "LEFT", least: 6, most: 7, rank: 4, right: true, paint: faint,
			text: leftText, compare: byExpiry,
		},
		{
			id: "cpu", title: "CPU", least: sparkWidth + 5, most: sparkWidth + 5, rank: 5, paint: processor,
			text:    processorText,
			compare: func(a, b *entry) int { return cmp.Compare(latest(a).cpu, latest(b).cpu) },
		},
		{
			id: "memory", title: "MEMORY", least: sparkWidth + 6, most: sparkWidth + 6, rank: 10, paint: memory,
			text:    memoryText,
			compare: func(a, b *entry) int { return cmp.Compare(latest(a).Memory, latest(b).Memory) },
		},
		{
			id: "cost", title: "COST", least: 10, most: 12, weight: 1, rank: 6, right: true, paint: warn,
			text:    func(e *entry, now time.Time) string { return costText(spent(e, now)) },
			compare: func(a, b *entry) int { return cmp.Compare(orZero(a.box.Cost).Amount, orZero(b.box.Cost).Amount) },
			wanted:  func(e *entry) bool { return e.box.Cost != nil },
		},
		{
			id: "active", title: "ACTIVE", least: 6, most: 7, rank: 11, right: true, paint: faint,
			text:    func(e *entry, now time.Time) string { return format.Since(e.box.LastActive, now) },
			compare: func(a, b *entry) int { return b.box.LastActive.Compare(a.box.LastActive) },
		},
	}
}

// spent returns a sandbox's cost until now, or nil. It extrapolates the last list by the hourly rate.
func spent(e *entry, now time.Time) *core.Cost {
	if e.box.Cost == nil {
		return nil
	}
	cost := *e.box.Cost
	if since := now.Sub(e.from.listed); e.box.State.Live() && !e.from.listed.IsZero() && since > 0 {
		cost.Amount += cost.PerHour * since.Hours()
	}
	return &cost
}

func costText(cost *core.Cost) string {
	if cost == nil {
		return ""
	}
	return cost.String()
}

func orZero(cost *core.Cost) core.Cost {
	if cost == nil {
		return core.Cost{}
	}
	return *cost
}

func byName(a, b *entry) int { return cmp.Compare(a.box.Name, b.box.Name) }

func latest(e *entry) sample {
	s, _ := e.series.last()
	return s
}

func stateRank(e *entry) int {
	return slices.Index([]core.State{
		core.StateQueued, core.StateCreating, core.StateRunning, core.StatePaused, core.StateStopped,
		core.StateExited, core.StateFailed, core.StateLost,
	}, e.box.State)
}

func stateText(e *entry, now time.Time) string {
	word := e.search[1]
	if age, overdue := e.from.old(now); overdue {
		return "~" + format.Span(age) + " " + word
	}
	return stateGlyph(e.box) + " " + word
}

func stateGlyph(box core.Sandbox) string {
	switch box.State {
	case core.StateQueued, core.StateCreating:
		return "◌"
	case core.StateRunning:
		return "●"
	case core.StatePaused:
		return "‖"
	case core.StateStopped:
		return "■"
	case core.StateExited:
		if box.ExitCode != nil && *box.ExitCode != 0 {
			return "✗"
		}
		return "✓"
	case core.StateFailed, core.StateLost:
		return "✗"
	}
	return "?"
}

func statePaint(s *theme.Styles, e *entry) theme.Paint {
	switch e.box.State {
	case core.StateQueued, core.StateCreating:
		return s.Info
	case core.StateRunning:
		if e.box.Frozen {
			return s.Info
		}
		return s.Good
	case core.StatePaused, core.StateStopped:
		return s.Warn
	case core.StateExited:
		if e.box.ExitCode != nil && *e.box.ExitCode != 0 {
			return s.Bad
		}
		return s.Off
	case core.StateFailed, core.StateLost:
		return s.Bad
	}
	return s.Text
}

func leftText(e *entry, now time.Time) string {
	switch {
	case !e.box.State.Live() || e.box.State == core.StateStopped:
		return ""
	case e.box.Expires.IsZero():
		return "never"
	}
	return format.Span(e.box.Expires.Sub(now))
}

// byExpiry sorts by the time left. Sandboxes without a limit are last.
func byExpiry(a, b *entry) int {
	never := func(e *entry) bool { return e.box.Expires.IsZero() || !e.box.State.Live() }
	switch {
	case never(a) && never(b):
		return byName(a, b)
	case never(a):
		return 1
	case never(b):
		return -1
	}
	return a.box.Expires.Compare(b.box.Expires)
}

func processorText(e *entry, _ time.Time) string {
	last, ok := e.series.last()
	if !ok || !e.box.State.Live() {
		return ""
	}
	limit := 100.0
	if last.CPULimit > 0 {
		limit = 100 * last.CPULimit
	}
	values := e.series.values(sparkWidth, func(s sample) float64 { return s.cpu })
	return graph.Spark(values, limit, sparkWidth) + fmt.Sprintf("%4.0f%%", min(last.cpu, 9999))
}

func memoryText(e *entry, _ time.Time) string {
	last, ok := e.series.last()
	if !ok || !e.box.State.Live() {
		return ""
	}
	values := e.series.values(sparkWidth, func(s sample) float64 { return s.memory })
	top := float64(last.MemoryLimit)
	if top == 0 {
		top = slices.Max(values)
	}
	return graph.Spark(values, top, sparkWidth) + screen.FitRight(format.Short(last.Memory), 6)
}

// chooseColumns returns the columns that fit into cells, and their widths.
func chooseColumns(all []column, cells int) (shown []column, widths []int) {
	const gap = 1
	shown = slices.Clone(all)
	need := func() int {
		total := gap * (len(shown) - 1)
		for _, c := range shown {
			total += c.least
		}
		return total
	}
	for len(shown) > 1 && need() > cells {
		last := slices.MaxFunc(shown, func(a, b column) int { return cmp.Compare(a.rank, b.rank) })
		shown = slices.DeleteFunc(shown, func(c column) bool { return c.id == last.id })
	}
	widths = make([]int, len(shown))
	spare, weight := cells-need(), 0
	for i, c := range shown {
		widths[i] = c.least
		weight += c.weight
	}
	for i, c := range shown {
		if spare > 0 && weight > 0 {
			more := min(spare*c.weight/weight, c.most-c.least)
			widths[i] += more
			spare, weight = spare-more, weight-c.weight
		}
	}
	if len(shown) == 1 {
		widths[0] = max(1, min(cells, widths[0]))
	}
	return shown, widths
}

// columnNamed returns the column with an id, in any case of letters.
func columnNamed(id string) (column, bool) {
	all := columns()
	i := slices.IndexFunc(all, func(c column) bool { return c.id == strings.ToLower(id) })
	if i < 0 {
		return column{}, false
	}
	return all[i], true
}

// safe makes text from a sandbox or provider safe for one line of the terminal.
func safe(text string) string { return guesttext.Line(text) }
