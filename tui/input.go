package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/tui/internal/screen"
)

// key routes a key to the topmost dialog, to the open text input, or to the key's command.
func (m *Model) key(msg tea.KeyPressMsg) tea.Cmd {
	if len(m.dialogs) > 0 {
		return m.toDialog(msg)
	}
	if m.line != lineNone {
		return m.lineKey(msg)
	}
	c, ok := m.commandFor(msg.String())
	switch {
	case ok:
		return c.run(m)
	case c.group == groupActions && m.has(c):
		return m.say(m.impossible(c))
	}
	return nil
}

// impossible explains why an action is not available now.
func (m *Model) impossible(c command) string {
	title := strings.TrimSuffix(c.title, " …")
	e := m.table.selected()
	if e == nil {
		return title + ": no sandbox is selected"
	}
	return title + ": not available for " + e.box.Name + " (" + stateWord(e.box) + " on " + e.box.Provider + ")"
}

func (m *Model) paste(msg tea.PasteMsg) tea.Cmd {
	if len(m.dialogs) > 0 {
		return m.toDialog(msg)
	}
	if m.line != lineNone {
		var cmd tea.Cmd
		m.input, cmd = m.input.Update(msg)
		return tea.Batch(cmd, m.lineChanged())
	}
	return nil
}

// toDialog passes a message to the topmost dialog and carries out its answer.
func (m *Model) toDialog(msg tea.Msg) tea.Cmd {
	top := m.dialogs[len(m.dialogs)-1]
	a := top.update(msg)
	if a.done {
		m.dialogs = m.dialogs[:len(m.dialogs)-1]
	}
	if a.request == nil {
		return a.cmd
	}
	return tea.Batch(a.cmd, m.perform(a.request))
}

// toStores passes a message to the store dialog, even when a question is open above it.
func (m *Model) toStores(msg tea.Msg) tea.Cmd {
	for _, d := range m.dialogs {
		if stores, ok := d.(*storeDialog); ok {
			return m.perform(stores.update(msg).request)
		}
	}
	return nil
}

func (m *Model) open(d dialog) { m.dialogs = append(m.dialogs, d) }

// beginLine opens the text input in the footer.
func (m *Model) beginLine(which int, value string) {
	m.line, m.input = which, newInput(value)
}

func (m *Model) lineKey(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "esc", "ctrl+c":
		m.input.SetValue("")
		cmd := m.lineChanged()
		m.line = lineNone
		return cmd
	case "enter":
		which := m.line
		m.line = lineNone
		if which == lineSearch {
			return m.search(1)
		}
		return nil
	case "up", "down", "pgup", "pgdown":
		if c, ok := m.commandFor(msg.String()); ok {
			return c.run(m)
		}
		return nil
	}
	before := m.input.Value()
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	if m.input.Value() == before {
		return cmd
	}
	return tea.Batch(cmd, m.lineChanged())
}

// lineChanged applies the text input on every change.
func (m *Model) lineChanged() tea.Cmd {
	text := m.input.Value()
	switch m.line {
	case lineFilter:
		m.table.filter, m.stale = text, true
		return m.changed()
	case lineSearch:
		*m.detail.finding() = newFinder(text)
	}
	return nil
}

// mouse routes clicks, drags and the wheel.
func (m *Model) mouse(msg tea.MouseMsg) tea.Cmd {
	at := msg.Mouse()
	switch msg := msg.(type) {
	case tea.MouseReleaseMsg:
		if m.dragging {
			m.dragging = false
			return m.changed()
		}
	case tea.MouseMotionMsg:
		if m.dragging {
			m.ratio = m.layout.ratioAt(at.X, at.Y)
		}
	case tea.MouseWheelMsg:
		if len(m.dialogs) > 0 {
			return m.toDialog(msg)
		}
		switch {
		case m.layout.table.contains(at.X, at.Y):
			m.table.wheel(wheelStep(msg))
		case m.layout.detail.contains(at.X, at.Y):
			m.detail.move(wheelStep(msg))
		}
	case tea.MouseClickMsg:
		if msg.Button == tea.MouseLeft {
			return m.click(at.X, at.Y)
		}
	}
	return nil
}

func (m *Model) click(x, y int) tea.Cmd {
	if len(m.dialogs) > 0 {
		box := m.dialogs[len(m.dialogs)-1].view(m.styles, m.w, m.h)
		left, top := place(box, m.w, m.h)
		if x < left || y < top || y >= top+len(box) || x >= left+screen.Width(box[0]) {
			return nil
		}
		return m.toDialog(boxClickMsg{x - left, y - top})
	}
	m.line = lineNone
	switch l := m.layout; {
	case l.splitter.contains(x, y):
		m.dragging = true
	case l.header.contains(x, y):
		return m.openProviders()
	case l.table.contains(x, y):
		return m.clickTable(x-l.table.x, y-l.table.y)
	case l.detail.contains(x, y):
		return m.clickDetail(x-l.detail.x, y-l.detail.y)
	case l.jobs.contains(x, y):
		return m.askJobs()
	}
	return nil
}

func (m *Model) clickTable(x, y int) tea.Cmd {
	m.focus = paneTable
	if y == 0 {
		m.table.sortAt(x)
		m.stale = true
		return m.changed()
	}
	row := m.table.rowAt(y)
	if row < 0 || m.table.rows[row].entry == nil {
		return nil
	}
	if x < markWidth {
		m.table.goTo(row)
		m.table.mark()
		return nil
	}
	if row == m.table.at && m.layout.detail.empty() {
		m.focusOn(paneDetail)
	}
	m.table.goTo(row)
	return nil
}

func (m *Model) clickDetail(x, y int) tea.Cmd {
	m.focusOn(paneDetail)
	if y == 0 {
		if tab := m.detail.tabAt(x); tab >= 0 {
			return m.selectTab(tab)
		}
		return nil
	}
	switch m.detail.tab {
	case tabExecs:
		if y > 1 {
			m.detail.execs.cursor = 0
			m.detail.execs.move(m.detail.execs.offset + y - 2)
		}
	case tabFiles:
		f := &m.detail.files
		if i := f.offset + y - 1; i < len(f.rows) {
			again := i == f.at
			f.move(i - f.at)
			if again {
				return m.openFile()
			}
		}
	}
	return nil
}
