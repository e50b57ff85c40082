package tui

import (
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/theme"
)

const (
	// settleTime is how long the cursor rests on a sandbox before its details are loaded.
	settleTime = 120 * time.Millisecond
	// hurryTime is how long changes are collected before a provider is listed.
	hurryTime = 150 * time.Millisecond
	// saveTime is the delay between a layout change and its save.
	saveTime = time.Second
	// sampleTicks and frozenTicks are the seconds between two samples of a running and of a frozen sandbox.
	sampleTicks = 2
	frozenTicks = 10
	// execTicks is the seconds between two reads of the visible journal.
	execTicks = 2
)

// The text inputs in the footer.
const (
	lineNone = iota
	lineFilter
	lineSearch
)

// Model is the root of the dashboard: it holds the panes and dialogs and routes messages to them.
type Model struct {
	options  Options
	fx       *effects
	commands []command
	keys     keyMap
	styles   *theme.Styles
	theme    string // as chosen; auto follows the terminal

	inv     *inventory
	table   *table
	detail  detail
	notices notices
	dialogs []dialog
	jobs    []*job
	nextJob int

	layout layout
	w, h   int
	split  string
	ratio  int
	zoomed bool
	focus  pane

	line  int // the open text input
	input textinput.Model

	now      time.Time
	ticks    int
	stale    bool // the table needs a refresh
	hurried  bool // a hurryMsg is pending
	asking   bool // a read of the journal is running
	dragging bool
	attach   string // the sandbox to select when it appears

	// handedOver is true from an aside until the terminal is settled. asides wait for that.
	handedOver bool
	asides     []func() error
	// noticed is the last notice about each sandbox and each denied target. The same event may arrive several times.
	noticed map[string]string
	saves   int
	// remembered is the layout at startup.
	remembered Memory
	// leaving quits the dashboard after the last job.
	leaving bool
}

func newModel(fx *effects, options Options, memory Memory) (*Model, error) {
	keys, err := newKeyMap(options.Keys)
	if err != nil {
		return nil, err
	}
	m := &Model{
		remembered: memory, options: options, fx: fx, commands: allCommands(), keys: keys, theme: options.Theme,
		inv: newInventory(options.Service.Providers.Names()), table: newTable(), detail: newDetail(memory),
		split: orElse(memory.Split, splitAuto), ratio: memory.Ratio, now: options.Now(), input: newInput(""),
		noticed: map[string]string{},
	}
	if m.ratio < 10 || m.ratio > 90 {
		m.ratio = 50
	}
	m.setTheme(true)
	if _, ok := columnNamed(memory.Sort); ok {
		m.table.sort = memory.Sort
	}
	m.table.reverse, m.table.filter, m.table.hideDead = memory.Reverse, memory.Filter, memory.HideDead
	if memory.Group == groupApp || memory.Group == groupProvider {
		m.table.group = memory.Group
	}
	if options.Attach != "" {
		m.focus, m.zoomed, m.table.filter, m.table.hideDead = paneDetail, true, "", false
	}
	return m, nil
}

// memory returns the current layout.
func (m *Model) memory() Memory {
	filter, hideDead := m.table.filter, m.table.hideDead
	if m.options.Attach != "" { // newModel cleared both
		filter, hideDead = orElse(filter, m.remembered.Filter), hideDead || m.remembered.HideDead
	}
	return Memory{
		Split: m.split, Ratio: m.ratio, Tab: tabNames()[m.detail.tab], Sort: m.table.sort, Reverse: m.table.reverse,
		Filter: filter, Group: m.table.group, HideDead: hideDead,
		NoWrap: !m.detail.output.wrap, Times: m.detail.output.times,
	}
}

// setTheme applies the chosen theme. dark describes the terminal's background.
func (m *Model) setTheme(dark bool) {
	chosen := m.theme
	switch {
	case m.options.NoColor:
		chosen = theme.Plain
	case chosen == theme.Auto && dark:
		chosen = theme.Dark
	case chosen == theme.Auto:
		chosen = theme.Light
	}
	m.styles = theme.New(chosen)
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{
		m.fx.capabilities(m.options.Service.Providers.Names()), m.fx.tick(),
		m.fx.nextEvents(), m.fx.nextProgress(), m.fx.nextAside(),
	}
	if m.theme == theme.Auto && !m.options.NoColor {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	if m.options.Attach != "" {
		cmds = append(cmds, m.fx.attach(m.options.Attach))
	}
	return tea.Batch(cmds...)
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = m.options.Now()
	cmd := m.handle(msg)
	return m, tea.Batch(cmd, m.settle())
}

// settle updates the panes after a message.
func (m *Model) settle() tea.Cmd {
	m.arrange()
	if m.stale {
		m.stale = false
		m.table.refresh(m.inv)
	}
	if m.attach != "" && m.inv.entries[m.attach] != nil {
		m.table.cursor, m.attach = m.attach, ""
		m.table.find()
	}
	if m.table.cursor == m.detail.id {
		return nil
	}
	log := m.detail.output.log
	m.detail.show(m.table.cursor)
	cmds := []tea.Cmd{m.fx.after(settleTime, settledMsg{m.detail.gen})}
	if log != nil {
		cmds = append(cmds, m.fx.closeLog(log))
	}
	return tea.Batch(cmds...)
}

func (m *Model) arrange() {
	m.layout = arrange(m.w, m.h, arrangement{
		split: m.split, ratio: m.ratio, zoomed: m.zoomed, focus: m.focus,
		tableOnly: m.options.TableOnly, jobs: len(m.shownJobs()),
	})
	if !m.layout.table.empty() && m.layout.table != m.table.size {
		m.table.setSize(m.layout.table)
	}
	m.detail.size = m.layout.detail
}

// handle routes a message.
func (m *Model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
		m.fx.resized()
	case tea.BackgroundColorMsg:
		m.setTheme(msg.IsDark())
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.paste(msg)
	case tea.MouseMsg:
		return m.mouse(msg)
	case tickMsg:
		return tea.Batch(m.fx.tick(), m.tick())
	case hurryMsg:
		m.hurried = false
		return m.poll()
	case capabilitiesMsg:
		for name, caps := range msg {
			m.inv.source(name).caps = caps
		}
		// Events add sandboxes, whose keys need the capabilities.
		return tea.Batch(m.fx.watch(), m.poll(), m.checks())
	case listedMsg:
		m.stale = m.inv.Take(msg.provider, msg.listing, m.now) || m.stale
		return tea.Batch(m.tellHealth(m.inv.source(msg.provider)), m.hurryUp())
	case checkedMsg:
		return m.checked(msg)
	case sampledMsg:
		m.inv.sampled(msg)
	case eventsMsg:
		return tea.Batch(m.fx.nextEvents(), m.happened(msg))
	case attachedMsg:
		if msg.err != nil {
			return m.fail("attach", msg.err)
		}
		m.attach = msg.box.ID
		m.inv.hurry(msg.box.Provider, m.now)
		return m.hurryUp()
	case settledMsg:
		if msg.gen == m.detail.gen {
			return m.load()
		}
	case progressMsg:
		m.progressed(msg)
		return m.fx.nextProgress()
	case jobDoneMsg:
		return m.jobDone(msg)
	case doneMsg:
		return m.done(msg)
	case startedMsg:
		if msg.sandbox == m.detail.id && !m.options.TableOnly {
			return m.perform(sourceRequest{msg.exec})
		}
	case shellEndedMsg:
		return m.shellEnded(msg)
	case asideMsg:
		return tea.Batch(m.fx.nextAside(), m.aside(msg.run))
	case asideOverMsg:
		settle := tea.Batch(redraw(), m.fx.settle())
		if msg.err != nil {
			return tea.Batch(settle, m.fail("suspend", msg.err))
		}
		return settle
	case handOverMsg:
		m.handedOver = false
		if len(m.asides) > 0 {
			run := m.asides[0]
			m.asides = m.asides[1:]
			return m.aside(run)
		}
	case editReadyMsg:
		return m.fx.editor(msg.edit)
	case editedMsg:
		if msg.err != nil {
			return tea.Batch(redraw(), m.warn("the editor failed: "+msg.err.Error(), "your text is in "+msg.edit.local))
		}
		path := msg.edit.info.Path
		return tea.Batch(redraw(), m.fx.putBack(m.begin("writing "+path), msg.edit, reloadDirMsg{path}))
	case toastOverMsg:
		m.notices.over(msg.id)
	case saveMsg:
		if msg.seq == m.saves {
			return m.fx.remember(m.memory())
		}
	case findingsMsg:
		m.openDiagnosis(msg.status)
	case storeMsg, storeChangedMsg:
		return m.toStores(msg)
	case sizedMsg:
		return m.confirmTerminate(msg.boxes)
	case tunnelsMsg:
		return m.choosePort(msg)
	case logOpenedMsg, logMsg, execsMsg, dirMsg, previewMsg, historyMsg, networkMsg, reloadDirMsg:
		return m.detailed(msg)
	default:
		if len(m.dialogs) > 0 {
			return m.toDialog(msg)
		}
	}
	return nil
}

// tick runs once per second.
func (m *Model) tick() tea.Cmd {
	m.ticks++
	m.stale = m.stale || m.ticks%10 == 0 && m.table.sort != "name" // other columns may change with the clock or samples
	cmds := []tea.Cmd{m.poll(), m.checks()}
	if m.ticks%sampleTicks == 0 {
		cmds = append(cmds, m.samples())
	}
	if m.ticks%execTicks == 0 {
		cmds = append(cmds, m.journal())
	}
	return tea.Batch(cmds...)
}

func (m *Model) poll() tea.Cmd {
	var cmds []tea.Cmd
	for _, name := range m.inv.due(m.now) {
		cmds = append(cmds, m.fx.list(name))
	}
	return tea.Batch(cmds...)
}

func (m *Model) checks() tea.Cmd {
	var cmds []tea.Cmd
	for _, name := range m.inv.dueChecks(m.now) {
		cmds = append(cmds, m.fx.check(name))
	}
	return tea.Batch(cmds...)
}

// samples measures the visible sandboxes.
func (m *Model) samples() tea.Cmd {
	wanted := m.table.visible()
	if e := m.table.selected(); e != nil {
		wanted = append(wanted, e)
	}
	ids := map[*source][]string{}
	seen := map[string]bool{}
	for _, e := range wanted {
		_, overdue := e.from.old(m.now)
		idle := e.box.Frozen && m.ticks%frozenTicks != 0 && len(e.series) > 1
		measurable := e.box.State == core.StateRunning && m.inv.can(e, core.CapStats)
		if measurable && !e.from.sampling && !overdue && !idle && !seen[e.box.ID] {
			seen[e.box.ID] = true
			ids[e.from] = append(ids[e.from], e.box.ID)
		}
	}
	var cmds []tea.Cmd
	for from, list := range ids {
		from.sampling = true
		cmds = append(cmds, m.fx.sample(from.name, list))
	}
	return tea.Batch(cmds...)
}

// hurryUp lists the due providers after hurryTime. Calls until then are combined into one.
func (m *Model) hurryUp() tea.Cmd {
	if m.hurried {
		return nil
	}
	for _, s := range m.inv.sources {
		if !s.polling && !m.now.Before(s.next) {
			m.hurried = true
			return m.fx.after(hurryTime, hurryMsg{})
		}
	}
	return nil
}

// checked stores a provider's health.
func (m *Model) checked(msg checkedMsg) tea.Cmd {
	s := m.inv.source(msg.provider)
	s.status, s.checking, s.nextCheck = &msg.status, false, m.now.Add(checkEvery)
	if len(msg.status.Capabilities.Has) > 0 {
		s.caps = msg.status.Capabilities
	}
	if !msg.status.Usable {
		s.nextCheck = m.now.Add(checkEvery / 3)
	}
	return m.tellHealth(s)
}

// tellHealth shows a notice when a provider fails or recovers, and checks its health again.
func (m *Model) tellHealth(s *source) tea.Cmd {
	why, hint := s.trouble()
	down := why != ""
	if down == s.down {
		return nil
	}
	s.down, s.nextCheck = down, m.now
	if down && s.listed.IsZero() { // it never worked here: no notice
		return m.checks()
	}
	if why == "" {
		return tea.Batch(m.say(s.name+" is available again"), m.checks())
	}
	return tea.Batch(m.warn(s.name+": "+why, hint), m.checks())
}

// happened handles events.
func (m *Model) happened(msg eventsMsg) tea.Cmd {
	var cmds []tea.Cmd
	var news []notice
	reload := false
	for _, event := range msg.events {
		m.stale = m.inv.apply(event) || m.stale
		if event.Type == core.EventState || event.Type == core.EventOperation && event.Op == "timeout" {
			m.inv.hurry(event.Provider, m.now)
		}
		if severity, text := eventNotice(event); text != "" && m.isNews(event) {
			news = append(news, notice{severity: severity, text: text})
		}
		reload = reload || event.Sandbox == m.detail.id && m.detail.concerns(event)
	}
	if msg.lost {
		for _, s := range m.inv.sources {
			m.inv.hurry(s.name, m.now)
		}
	}
	if len(news) > maxToasts {
		cmds = append(cmds, m.gather(news))
	} else {
		for _, n := range news {
			cmds = append(cmds, m.toast(n.severity, n.text, ""))
		}
	}
	if reload {
		cmds = append(cmds, m.reload())
	}
	return tea.Batch(append(cmds, m.hurryUp())...)
}

// isNews reports whether an event has news that no notice showed yet.
func (m *Model) isNews(event core.Event) bool {
	const enough = 10_000
	about, news := event.Sandbox, string(event.State)
	if event.Denial != nil {
		about, news = about+" "+deniedTarget(*event.Denial), "denied"
	}
	if before, ok := m.noticed[about]; ok && before == news {
		return false
	}
	if len(m.noticed) > enough {
		clear(m.noticed)
	}
	m.noticed[about] = news
	return true
}

// gather adds several notices to the log and shows a single one for all.
func (m *Model) gather(news []notice) tea.Cmd {
	worst := severityInfo
	for _, n := range news {
		m.notices.over(m.notices.add(m.now, n.severity, n.text, "").id)
		worst = max(worst, n.severity)
	}
	return m.toast(worst, format.Plural(len(news), "change", "changes")+": "+news[len(news)-1].text+", …", "")
}

// toast shows a notice for a few seconds.
func (m *Model) toast(s severity, text, hint string) tea.Cmd {
	n := m.notices.add(m.now, s, text, hint)
	d := toastTime
	if s != severityInfo {
		d = errorTime
	}
	return m.fx.after(d, toastOverMsg{n.id})
}

func (m *Model) say(text string) tea.Cmd        { return m.toast(severityInfo, text, "") }
func (m *Model) warn(text, hint string) tea.Cmd { return m.toast(severityWarn, text, hint) }

// fail shows an error with its hint.
func (m *Model) fail(what string, err error) tea.Cmd {
	return m.toast(severityBad, what+": "+err.Error(), core.HintOf(err))
}

// done handles the end of a short operation.
func (m *Model) done(msg doneMsg) tea.Cmd {
	var cmds []tea.Cmd
	switch {
	case msg.err != nil && core.KindOf(msg.err) != core.KindCanceled:
		cmds = append(cmds, m.fail(msg.what, msg.err))
	case msg.err == nil && msg.text != "":
		cmds = append(cmds, m.say(msg.text))
	}
	if msg.then != nil {
		cmds = append(cmds, m.handle(msg.then))
	}
	return tea.Batch(append(cmds, m.hurryUp())...)
}

// changed schedules a save of the layout.
func (m *Model) changed() tea.Cmd {
	if m.options.MemoryFile == "" {
		return nil
	}
	m.saves++
	return m.fx.after(saveTime, saveMsg{m.saves})
}

// focusOn focuses a pane.
func (m *Model) focusOn(p pane) {
	if !m.options.TableOnly {
		m.focus = p
	}
}

// move moves the cursor of the focused pane, or scrolls it.
func (m *Model) move(by int) tea.Cmd {
	if m.focus == paneDetail {
		if m.detail.tab == tabOutput && (by > 1<<20 || by < -1<<20) {
			m.detail.output.toTop()
			m.detail.output.follow = by > 0
			return nil
		}
		m.detail.move(by)
		return nil
	}
	m.table.move(by)
	return nil
}

// aside hands the terminal over to a function, now or after the functions before it.
func (m *Model) aside(run func() error) tea.Cmd {
	if m.handedOver {
		m.asides = append(m.asides, run)
		return nil
	}
	m.handedOver = true
	return m.fx.aside(run)
}

// back closes the preview, search, zoom, pane, marks or filter, whichever comes first.
func (m *Model) back() tea.Cmd {
	switch {
	case m.focus == paneDetail && m.detail.tab == tabFiles && m.detail.files.preview != nil:
		m.detail.files.preview = nil
	case m.focus == paneDetail && m.detail.finding().query != "":
		*m.detail.finding() = newFinder("")
	case m.zoomed:
		m.zoomed = false
		m.focus = paneTable
	case m.focus == paneDetail:
		m.focus = paneTable
	case len(m.table.marks) > 0:
		clear(m.table.marks)
	case m.table.filter != "":
		m.table.filter, m.stale = "", true
		return m.changed()
	}
	return nil
}
