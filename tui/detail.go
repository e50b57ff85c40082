package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// The tabs of the detail pane, in order.
const (
	tabOutput = iota
	tabExecs
	tabFiles
	tabNetwork
	tabStats
	tabSpec
	tabHistory
)

func tabNames() []string {
	return []string{"Output", "Execs", "Files", "Network", "Stats", "Spec", "History"}
}

// detail is the pane that shows one sandbox.
type detail struct {
	tab  int
	id   string // the shown sandbox
	gen  int    // counts the shown sandboxes: an answer with an older number is stale
	size rect

	output  outputTab
	find    finder // of all tabs except Output, which has its own
	execs   execsTab
	files   filesTab
	scroll  scroller // of the plain-text tabs
	network network
	records []service.AuditRecord
	history struct {
		loaded bool
		err    error
	}
}

func newDetail(m Memory) detail {
	d := detail{output: newOutputTab(m), find: newFinder("")}
	if i := slices.Index(tabNames(), m.Tab); i >= 0 {
		d.tab = i
	}
	d.files.begin()
	return d
}

// show switches to another sandbox and drops the data of the previous one.
func (d *detail) show(id string) {
	d.id = id
	d.gen++
	d.output.clear()
	d.find = newFinder(d.find.query)
	d.execs = execsTab{h: d.execs.h}
	d.files.begin()
	d.scroll, d.network = scroller{}, network{}
	d.records, d.history.loaded, d.history.err = nil, false, nil
}

// concerns reports whether an event about the sandbox may change the visible tab.
func (d *detail) concerns(event core.Event) bool {
	switch event.Type {
	case core.EventExec, core.EventState:
		return true
	case core.EventOperation:
		return d.tab == tabHistory
	case core.EventDenial:
		return d.tab == tabNetwork
	case core.EventProgress:
	}
	return false
}

// move scrolls the tab, or moves its cursor.
func (d *detail) move(by int) {
	switch d.tab {
	case tabOutput:
		d.output.scroll(by)
	case tabExecs:
		d.execs.move(by)
	case tabFiles:
		if d.files.preview != nil && d.files.full {
			d.files.above = max(0, d.files.above+by)
		} else {
			d.files.move(by)
		}
	default:
		d.scroll.move(by)
	}
}

// finding returns the search of the visible tab.
func (d *detail) finding() *finder {
	if d.tab == tabOutput {
		return &d.output.finder
	}
	return &d.find
}

// search moves to the next match in the visible tab, forward or back, and reports whether there is one.
func (d *detail) search(s *theme.Styles, e *entry, step int, now time.Time) bool {
	var n int
	switch {
	case d.tab == tabOutput:
		return d.output.search(step)
	case d.tab == tabExecs:
		t := &d.execs
		n = d.find.next(step, t.cursor, 0, len(t.execs), func(n int) string { return execLine(t.execs[len(t.execs)-1-n]) })
		if n >= 0 {
			t.move(n - t.cursor)
		}
	case d.tab == tabFiles && d.files.preview != nil && d.files.full:
		lines := d.files.preview.lines
		n = d.find.next(step, d.find.current, 0, len(lines), func(n int) string { return lines[n] })
		if n >= 0 {
			d.files.above = n
		}
	case d.tab == tabFiles:
		f := &d.files
		n = d.find.next(step, f.at, 0, len(f.rows), func(n int) string { return f.rows[n].name() })
		if n >= 0 {
			f.move(n - f.at)
		}
	default:
		lines := d.text(s, d.size.w, d.size.h-1, e, now)
		n = d.find.next(step, d.find.current, 0, len(lines), func(n int) string { return lines[n] })
		if n >= 0 {
			d.scroll.move(n - d.scroll.h/2 - d.scroll.above)
		}
	}
	return n >= 0
}

// page returns the number of lines that a page key scrolls.
func (d *detail) page() int { return max(1, d.size.h-3) }

func (d *detail) view(s *theme.Styles, e *entry, focus bool, now time.Time) []string {
	w, h := d.size.w, d.size.h
	if d.size.empty() {
		return nil
	}
	lines := []string{d.tabs(s, focus)}
	h--
	switch {
	case e == nil:
		lines = append(lines, s.Faint.On("no sandbox is selected"))
	case d.tab == tabOutput:
		lines = append(lines, d.output.view(s, w, h, &d.execs)...)
	case d.tab == tabExecs:
		lines = append(lines, d.execs.view(s, w, h, focus, now, d.find.query)...)
	case d.tab == tabFiles:
		lines = append(lines, d.files.view(s, w, h, focus, d.find)...)
	default:
		text := d.text(s, w, h, e, now)
		for i, l := range text {
			text[i] = highlight(s, l, d.find.query, i == d.find.current)
		}
		lines = append(lines, d.scroll.cutTo(text, h)...)
	}
	return screen.Block(lines, d.size.w, d.size.h)
}

// text returns the content of the plain-text tabs.
func (d *detail) text(s *theme.Styles, w, h int, e *entry, now time.Time) []string {
	switch d.tab {
	case tabNetwork:
		return networkLines(s, w, e, d.network, now)
	case tabStats:
		return statsLines(s, w, h, e, now)
	case tabSpec:
		return specLines(s, w, e, now)
	default:
		return historyLines(s, w, d.records, d.history.err, d.history.loaded)
	}
}

// tabs draws the tab bar.
func (d *detail) tabs(s *theme.Styles, focus bool) string {
	var b strings.Builder
	for i, name := range d.labels() {
		p := s.Tab
		if i == d.tab {
			p = s.TabActive
		}
		b.WriteString(s.Key.On(string(rune('1'+i))) + p.On(name) + " ")
	}
	if query := d.find.query; query != "" && d.tab != tabOutput {
		b.WriteString(s.Faint.On(" /" + safe(query)))
	}
	if focus {
		return s.BorderFocus.On("▌") + b.String()
	}
	return " " + b.String()
}

// labels returns the names of the tabs, shortened when they do not fit.
func (d *detail) labels() []string {
	names := tabNames()
	total := 1
	for _, n := range names {
		total += len(n) + 2
	}
	if total <= d.size.w {
		return names
	}
	for i, n := range names {
		names[i] = n[:min(len(n), 4)]
	}
	return names
}

// tabAt returns the tab at a cell of the tab bar, or -1.
func (d *detail) tabAt(x int) int {
	left := 1
	for i, name := range d.labels() {
		right := left + len(name) + 2
		if x >= left && x < right {
			return i
		}
		left = right
	}
	return -1
}
