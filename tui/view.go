package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
)

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "sb"
	if m.options.Mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}

// screen draws the whole screen; every line has its full width.
func (m *Model) screen() []string {
	l, s := m.layout, m.styles
	if l.w < 1 || l.h < 1 {
		return nil
	}
	var lines []string
	if !l.header.empty() {
		lines = append(lines, m.header())
	}
	lines = append(lines, m.body()...)
	for i, j := range m.shownJobs() {
		if i < l.jobs.h {
			lines = append(lines, screen.Fit(j.line(s, l.w, m.now), l.w))
		}
	}
	if !l.footer.empty() {
		lines = append(lines, m.footer())
	}
	lines = lines[:min(len(lines), l.h)]
	toasts := m.notices.view(s, max(10, l.w-4))
	if len(toasts) > 0 {
		screen.Overlay(lines, toasts, max(0, l.w-screen.Width(toasts[0])-1), max(0, l.footer.y-l.jobs.h-len(toasts)), l.w)
	}
	for _, d := range m.dialogs {
		box := d.view(s, l.w, l.h)
		x, y := place(box, l.w, l.h)
		screen.Overlay(lines, box, x, y, l.w)
	}
	return lines
}

func (m *Model) body() []string {
	l, s := m.layout, m.styles
	tableView := func() []string {
		lines := m.table.view(s, m.focus == paneTable, m.now)
		if len(m.table.rows) == 0 && l.table.h > 2 {
			lines[1] = screen.Fit(" "+s.Faint.On(m.emptiness()), l.table.w)
		}
		return lines
	}
	detailView := func() []string { return m.detail.view(s, m.inv.entries[m.detail.id], m.focus == paneDetail, m.now) }
	switch {
	case l.detail.empty():
		return tableView()
	case l.table.empty():
		return detailView()
	case l.side:
		bar := make([]string, l.table.h)
		for i := range bar {
			bar[i] = s.Border.On("│")
		}
		return screen.JoinSides(tableView(), bar, detailView())
	}
	name := ""
	if e := m.inv.entries[m.detail.id]; e != nil {
		name = " " + screen.Cut(safe(e.box.Name), l.w/2) + " "
	}
	rule := s.Border.On("──") + s.Strong.On(name) + s.Border.On(strings.Repeat("─", max(0, l.w-2-screen.Width(name))))
	return append(append(tableView(), rule), detailView()...)
}

// emptiness explains why the table is empty.
func (m *Model) emptiness() string {
	switch {
	case m.table.total > 0 && m.table.filter != "":
		return "no sandbox matches the filter; esc clears it"
	case m.table.total > 0:
		return "all sandboxes are dead and hidden; d shows them"
	}
	ready := false
	for _, src := range m.inv.sources {
		if src.listed.IsZero() && src.failed == nil {
			return "looking for sandboxes …"
		}
		ready = ready || src.failed == nil && (src.status == nil || src.status.Usable)
	}
	if !ready {
		return "no provider is ready; v shows why"
	}
	return "no sandboxes; L launches one"
}

// header draws the first line: the number of sandboxes and the state of each provider.
func (m *Model) header() string {
	s, w := m.styles, m.layout.w
	var chips []string
	for _, src := range m.inv.sources {
		chips = append(chips, m.chip(src))
	}
	right := strings.Join(chips, "  ")
	count := fmt.Sprintf(" %d live, %d total", m.inv.live(), m.table.total)
	left := s.Brand.On(" sb") + s.Text.On(count)
	if e := m.inv.entries[m.detail.id]; e != nil && m.layout.table.empty() {
		left += s.Strong.On("  " + screen.Cut(safe(e.box.Name), w/3))
	}
	if m.table.filter != "" && m.line != lineFilter {
		left += s.Info.On("  /" + safe(m.table.filter))
	}
	if n, hidden := m.table.marked(); hidden > 0 {
		left += s.Marked.On(fmt.Sprintf("  %d marked, %d hidden", n, hidden))
	} else if n > 0 {
		left += s.Marked.On(fmt.Sprintf("  %d marked", n))
	}
	room := w - screen.Width(left) - 2
	if screen.Width(right) > room {
		right = screen.Cut(right, max(0, room))
	}
	return screen.Fit(left+screen.Blanks(w-screen.Width(left)-screen.Width(right)-1)+right, w)
}

// chip draws a provider for the header.
func (m *Model) chip(src *source) string {
	s := m.styles
	age, overdue := src.old(m.now)
	switch {
	case src.status != nil && src.status.NotSetUp:
		return s.Faint.On("○ " + src.name)
	case overdue && !src.listed.IsZero():
		return s.Bad.On("✗ " + src.name + " " + format.Span(age))
	case overdue || src.status != nil && !src.status.Usable:
		return s.Bad.On("✗ ") + s.Faint.On(src.name)
	case src.status == nil:
		return s.Faint.On("◌ " + src.name)
	}
	return s.Good.On("● ") + s.Text.On(src.name)
}

// footer draws the last line: the text input, a hint about a failing provider, or the available keys.
func (m *Model) footer() string {
	s, w := m.styles, m.layout.w
	switch m.line {
	case lineFilter, lineSearch:
		m.input.SetWidth(max(4, w-24))
		return screen.Fit(s.Key.On("/")+m.input.View()+s.Faint.On("  enter applies · esc clears"), w)
	}
	if hint := m.trouble(); hint != "" && len(m.dialogs) == 0 {
		return screen.Fit(s.Warn.On(screen.Cut(" "+hint, w)), w)
	}
	var b strings.Builder
	used := 1
	b.WriteByte(' ')
	for _, scope := range m.scopes() {
		for _, c := range m.commands {
			if c.brief == "" || c.scope != scope || len(m.keys[c.id]) == 0 || !m.ready(c) {
				continue
			}
			key := m.keys[c.id][0]
			cells := screen.Width(key) + screen.Width(c.brief) + 3
			if used+cells > w {
				return screen.Fit(b.String(), w)
			}
			used += cells
			b.WriteString(s.Key.On(key) + " " + s.Help.On(c.brief) + "  ")
		}
	}
	return screen.Fit(b.String(), w)
}

// trouble returns a hint for the selected sandbox's provider when its last list failed, or "".
func (m *Model) trouble() string {
	e := m.table.selected()
	if e == nil || e.from.failed == nil {
		return ""
	}
	why, hint := e.from.trouble()
	return safe(e.from.name + ": " + orElse(hint, why))
}
