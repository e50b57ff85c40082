package tui

import (
	"path"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
)

// load reads the data of the visible tab.
func (m *Model) load() tea.Cmd {
	e := m.table.selected()
	if e == nil || e.box.ID != m.detail.id || m.options.TableOnly {
		return nil
	}
	d := &m.detail
	switch d.tab {
	case tabOutput:
		if !m.inv.can(e, core.CapJournal) {
			return m.openLog(entryExec)
		}
		return m.fx.execs(d.gen, d.id)
	case tabExecs:
		return m.fx.execs(d.gen, d.id)
	case tabFiles:
		if root := d.files.dirs[d.files.root]; root.loading || root.err != nil {
			root.loading, root.err = true, nil
			return m.fx.readDir(d.gen, d.id, d.files.root)
		}
	case tabNetwork:
		if denials := m.inv.can(e, core.CapDenials); running(e) && (denials || publishes(e.box)) {
			return m.fx.network(d.gen, e.box, denials)
		}
	case tabHistory:
		return m.fx.history(d.gen, d.id)
	}
	return nil
}

// reload reads the data of the visible tab again. Files are reloaded only by key.
func (m *Model) reload() tea.Cmd {
	if m.detail.tab == tabFiles {
		return nil
	}
	return m.load()
}

// journal reads the journal again while a tab shows it.
func (m *Model) journal() tea.Cmd {
	e := m.table.selected()
	shown := !m.layout.detail.empty() && (m.detail.tab == tabOutput || m.detail.tab == tabExecs)
	if !shown || m.asking || !running(e) || e.box.Frozen || e.box.ID != m.detail.id || !m.inv.can(e, core.CapJournal) {
		return nil
	}
	if _, overdue := e.from.old(m.now); overdue {
		return nil
	}
	m.asking = true
	return m.fx.execs(m.detail.gen, m.detail.id)
}

// openLog shows the output of a command.
func (m *Model) openLog(exec string) tea.Cmd {
	o := &m.detail.output
	if o.exec == exec && o.open || o.exec == exec && o.log != nil {
		return nil
	}
	old, chosen := o.log, o.chosen
	o.clear()
	o.exec, o.chosen, o.open = exec, chosen, true
	open := m.fx.openLog(o.gen, m.detail.id, exec)
	if old != nil {
		return tea.Batch(m.fx.closeLog(old), open)
	}
	return open
}

// reloadDirMsg asks to read a directory again.
type reloadDirMsg struct{ path string }

// detailed stores data for the detail pane and drops data of a sandbox that is no longer shown.
func (m *Model) detailed(msg tea.Msg) tea.Cmd {
	d := &m.detail
	switch msg := msg.(type) {
	case logOpenedMsg:
		if msg.gen != d.output.gen {
			return m.fx.closeLog(msg.log)
		}
		d.output.log = msg.log
		return m.fx.nextLog(msg.gen, msg.log)
	case logMsg:
		if msg.gen != d.output.gen {
			return nil
		}
		d.output.Take(msg)
		if msg.open {
			return m.fx.nextLog(msg.gen, d.output.log)
		}
	case execsMsg:
		m.asking = false
		if msg.gen != d.gen {
			return nil
		}
		d.execs.Take(msg)
		e := m.inv.entries[d.id]
		if d.tab != tabOutput || e == nil {
			return nil
		}
		if msg.err != nil {
			return m.openLog(entryExec)
		}
		if len(e.box.Spec.Command) == 0 && len(msg.execs) == 0 {
			return nil
		}
		exec := d.output.choose(e.box, msg.execs)
		i := slices.IndexFunc(msg.execs, func(x core.Exec) bool { return x.ID == exec })
		if exec == d.output.exec && !d.output.open && i >= 0 && msg.execs[i].Running() {
			d.output.exec = "" // read its log again: it did not exist yet, or its reading failed
		}
		return m.openLog(exec)
	case dirMsg:
		if msg.gen == d.gen {
			d.files.Take(msg)
		}
	case reloadDirMsg:
		return m.reloadDir(msg.path)
	case previewMsg:
		if msg.gen == d.gen {
			d.files.preview, d.files.above = &msg.preview, 0
			d.files.full = d.size.w < 60
		}
	case networkMsg:
		if msg.gen == d.gen {
			d.network = msg.found
		}
	case historyMsg:
		if msg.gen == d.gen {
			d.records, d.history.err, d.history.loaded = msg.records, msg.err, true
		}
	}
	return nil
}

// selectTab switches the tab and loads its data.
func (m *Model) selectTab(tab int) tea.Cmd {
	m.detail.tab = tab
	m.detail.scroll, m.detail.find = scroller{}, newFinder("")
	return tea.Batch(m.load(), m.changed())
}

// search moves to the next match in the tab, forward or back.
func (m *Model) search(step int) tea.Cmd {
	query, e := m.detail.finding().query, m.table.selected()
	if query == "" || e == nil || m.detail.search(m.styles, e, step, m.now) {
		return nil
	}
	if m.detail.tab == tabFiles {
		return m.say("not found in open directories: " + query)
	}
	return m.say("not found: " + query)
}

// openTab is selectTab with the focus on the detail pane.
func (m *Model) openTab(tab int) tea.Cmd {
	m.focusOn(paneDetail)
	return m.selectTab(tab)
}

// nextSource shows the output of another command.
func (m *Model) nextSource(step int) tea.Cmd {
	execs := m.detail.execs.execs
	if len(execs) == 0 {
		return nil
	}
	i := slices.IndexFunc(execs, func(e core.Exec) bool { return e.ID == m.detail.output.exec })
	i = (i + step + len(execs)) % len(execs)
	return m.perform(sourceRequest{execs[i].ID})
}

// openFile opens or closes a directory, or shows a file.
func (m *Model) openFile() tea.Cmd {
	d := &m.detail
	info, ok := d.files.selected()
	if !ok {
		return nil
	}
	if !info.Mode.IsDir() && d.files.dirs[info.Path] == nil {
		return m.fx.preview(d.gen, d.id, info)
	}
	if d.files.toggle(info.Path) {
		return m.fx.readDir(d.gen, d.id, info.Path)
	}
	return nil
}

// reloadDir reads a directory of the tree again, or the one around a file.
func (m *Model) reloadDir(name string) tea.Cmd {
	name = path.Clean(name)
	if m.detail.files.dirs[name] == nil {
		name = path.Dir(name)
	}
	if known := m.detail.files.dirs[name]; known != nil {
		known.err = nil
		return m.fx.readDir(m.detail.gen, m.detail.id, name)
	}
	return nil
}
