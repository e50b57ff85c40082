package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/feed"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/guesttext"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// entryExec is the entry command's id in the journal.
const entryExec = "0"

// outputTab shows the output of one command of a sandbox.
type outputTab struct {
	// exec is the id of the shown command; "" before one is chosen.
	exec string
	// chosen reports that the user chose the command: a newer one does not replace it.
	chosen bool
	log    *feed.Log
	open   bool
	gen    int // counts the shown logs

	lines   []feed.LogLine
	bytes   int
	dropped int // the number of lines dropped before lines[0]
	lost    int
	partial [2]string
	err     error

	follow, wrap, times bool
	// top is the first visible line, counted from the start of the output, and sub its first visible piece.
	top, sub int
	left     int // cells scrolled off to the left, without wrapping
	w, h     int

	finder
}

func newOutputTab(m Memory) outputTab {
	return outputTab{follow: true, wrap: !m.NoWrap, times: m.Times, finder: newFinder("")}
}

// clear drops the log and keeps the settings.
func (o *outputTab) clear() {
	*o = outputTab{
		follow: true, wrap: o.wrap, times: o.times, w: o.w, h: o.h, finder: newFinder(o.query), gen: o.gen + 1,
	}
}

// choose picks the command to show unless the user chose one: the entry command, or else the newest.
func (o *outputTab) choose(box core.Sandbox, execs []core.Exec) (exec string) {
	if o.chosen || len(execs) == 0 && o.exec != "" {
		return o.exec
	}
	if len(box.Spec.Command) > 0 || len(execs) == 0 {
		return entryExec
	}
	running := slices.IndexFunc(execs, core.Exec.Running)
	shown := slices.IndexFunc(execs, func(e core.Exec) bool { return e.ID == o.exec })
	if shown >= 0 && (execs[shown].Running() || running < 0 && shown == len(execs)-1) {
		return o.exec
	}
	for _, e := range slices.Backward(execs) {
		if e.Running() {
			return e.ID
		}
	}
	return execs[len(execs)-1].ID
}

// Take appends output.
func (o *outputTab) Take(msg logMsg) {
	for _, b := range msg.batch {
		o.lines = append(o.lines, b.Lines...)
		o.bytes += b.Bytes
		o.lost += b.Lost
		o.partial = b.Partial
		if b.Err != nil {
			o.err = b.Err
		}
	}
	var dropped int
	o.lines, o.bytes, dropped = feed.TrimLog(o.lines, o.bytes)
	o.dropped += dropped
	if o.top < o.dropped {
		o.top, o.sub = o.dropped, 0
	}
	o.open = msg.open
}

// end returns the number after the last line. Partial lines count.
func (o *outputTab) end() int {
	n := o.dropped + len(o.lines)
	for _, p := range o.partial {
		if p != "" {
			n++
		}
	}
	return n
}

// line returns a line by its number.
func (o *outputTab) line(n int) feed.LogLine {
	if i := n - o.dropped; i < len(o.lines) {
		return o.lines[i]
	}
	n -= o.dropped + len(o.lines)
	for which, p := range o.partial {
		if p == "" {
			continue
		}
		if n == 0 {
			return feed.LogLine{Stderr: which == 1, Text: p}
		}
		n--
	}
	return feed.LogLine{}
}

const timeLayout = "15:04:05.000"

// gutter returns the number of cells before the text.
func (o *outputTab) gutter() int {
	if o.times {
		return len(timeLayout) + 2
	}
	return 1
}

// pieces returns a line's rows on the screen, without the gutter.
func (o *outputTab) pieces(s *theme.Styles, n int) []string {
	text := o.line(n).Text
	cells := max(1, o.w-o.gutter())
	if o.query != "" {
		text = highlight(s, text, o.query, n == o.current)
	}
	if o.wrap {
		return guesttext.Wrap(text, cells)
	}
	if o.left > 0 {
		text = ansi.TruncateLeftWc(text, o.left, "")
	}
	return []string{ansi.TruncateWc(text, cells, "")}
}

// height returns the number of rows of a line.
func (o *outputTab) height(n int) int {
	if !o.wrap {
		return 1
	}
	text := o.line(n).Text
	cells := max(1, o.w-o.gutter())
	if len(text) <= cells {
		return 1
	}
	return len(guesttext.Wrap(text, cells))
}

// toEnd scrolls to the end.
func (o *outputTab) toEnd() {
	rows := o.h
	o.top, o.sub = o.end(), 0
	for o.top > o.dropped && rows > 0 {
		o.top--
		h := o.height(o.top)
		if h > rows {
			o.sub = h - rows
		}
		rows -= h
	}
}

// scroll scrolls by rows. Scrolling up stops following; scrolling past the end resumes it.
func (o *outputTab) scroll(rows int) {
	if rows < 0 && o.follow {
		o.toEnd()
	}
	if rows < 0 {
		o.follow = false
	}
	for ; rows < 0; rows++ {
		switch {
		case o.sub > 0:
			o.sub--
		case o.top > o.dropped:
			o.top--
			o.sub = o.height(o.top) - 1
		}
	}
	for ; rows > 0; rows-- {
		if o.atEnd() {
			o.follow = true
			return
		}
		if o.sub++; o.sub >= o.height(o.top) {
			o.top, o.sub = o.top+1, 0
		}
	}
}

// atEnd reports whether the last row is visible.
func (o *outputTab) atEnd() bool {
	rows := -o.sub
	for n := o.top; n < o.end(); n++ {
		if rows += o.height(n); rows > o.h {
			return false
		}
	}
	return true
}

func (o *outputTab) toTop() { o.follow, o.top, o.sub = false, o.dropped, 0 }

// search moves to the next line with the query, forward or back, and reports whether there is one.
func (o *outputTab) search(step int) bool {
	from := o.current
	if from < o.dropped || from >= o.end() {
		from = o.top
		if step < 0 {
			from = o.end()
		} else {
			from--
		}
	}
	n := o.next(step, from, o.dropped, o.end(), func(n int) string { return o.line(n).Text })
	if n < 0 {
		return false
	}
	o.follow = false
	o.top, o.sub = max(o.dropped, n-o.h/2), 0
	return true
}

// text returns the whole log without colors, to copy or save.
func (o *outputTab) text() string {
	var b strings.Builder
	for n := o.dropped; n < o.end(); n++ {
		l := o.line(n)
		if o.times && !l.At.IsZero() {
			b.WriteString(l.At.Format(time.RFC3339Nano) + " ")
		}
		b.WriteString(ansi.Strip(l.Text))
		b.WriteByte('\n')
	}
	return b.String()
}

// view draws the log below its title.
func (o *outputTab) view(s *theme.Styles, w, h int, journal *execsTab) []string {
	execs := journal.execs
	o.w, o.h = w, max(1, h-1)
	if o.follow {
		o.toEnd()
	}
	if o.exec == "" && !journal.loaded {
		return []string{s.Faint.On("…")}
	}
	if o.exec == "" {
		return []string{s.Faint.On("no commands yet; e runs one")}
	}
	lines := []string{o.title(s, execs)}
	switch {
	case o.err != nil:
		lines = append(lines, problem(s, o.err, w)...)
	case o.end() == 0 && o.log != nil && o.open:
		lines = append(lines, s.Faint.On("waiting for output …"))
	case o.end() == 0:
		lines = append(lines, s.Faint.On("no output"))
	}
	for n, skip := o.top, o.sub; n < o.end() && len(lines) < h; n, skip = n+1, 0 {
		l := o.line(n)
		for i, piece := range o.pieces(s, n) {
			if i >= skip && len(lines) < h {
				lines = append(lines, o.margin(s, l, i)+piece)
			}
		}
	}
	return lines
}

// margin draws the cells before a row: the time on a line's first row, and a bar for stderr.
func (o *outputTab) margin(s *theme.Styles, l feed.LogLine, row int) string {
	bar := " "
	if l.Stderr {
		bar = s.Stderr.On("▎")
	}
	if !o.times {
		return bar
	}
	if row > 0 || l.At.IsZero() {
		return screen.Blanks(len(timeLayout)+1) + bar
	}
	return s.Faint.On(l.At.Local().Format(timeLayout)) + " " + bar
}

func (o *outputTab) title(s *theme.Styles, execs []core.Exec) string {
	name := "command " + o.exec
	if o.exec == entryExec {
		name = "entry command"
	}
	for _, e := range execs {
		if e.ID == o.exec {
			name += ": " + safe(strings.Join(e.Command, " "))
			break
		}
	}
	title := s.Strong.On(screen.Cut(name, max(10, o.w*2/3)))
	var facts []string
	if len(execs) > 1 {
		facts = append(facts, format.Plural(len(execs), "command", "commands"))
	}
	if o.follow {
		facts = append(facts, "following")
	} else {
		facts = append(facts, fmt.Sprintf("line %d of %d", o.top+1, o.end()))
	}
	if o.query != "" {
		facts = append(facts, "/"+safe(o.query))
	}
	if gone := o.lost + o.dropped; gone > 0 {
		facts = append(facts, format.Plural(gone, "line", "lines")+" dropped")
	}
	return title + "  " + s.Faint.On(strings.Join(facts, " · "))
}

// problem draws an error with its hint.
func problem(s *theme.Styles, err error, w int) []string {
	var lines []string
	for _, l := range screen.Prose(safe(err.Error()), w) {
		lines = append(lines, s.Bad.On(l))
	}
	if hint := core.HintOf(err); hint != "" {
		for _, l := range screen.Prose("→ "+safe(hint), w) {
			lines = append(lines, s.Faint.On(l))
		}
	}
	return lines
}
