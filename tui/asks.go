package tui

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// This file opens the dialogs.

func (m *Model) askLaunch() tea.Cmd {
	form := newLaunchForm(m.fx, m.inv, m.table.selected())
	m.open(form)
	return tea.Batch(form.changed(), m.fx.templates())
}

// names joins the names of sandboxes with commas.
func names(boxes []core.Sandbox) string {
	list := make([]string, len(boxes))
	for i, b := range boxes {
		list[i] = b.Name
	}
	return strings.Join(list, ", ")
}

// chosen returns the sandboxes that an action applies to.
func (m *Model) chosen() []core.Sandbox {
	var boxes []core.Sandbox
	for _, e := range m.table.chosen() {
		boxes = append(boxes, e.box)
	}
	return boxes
}

// askTerminate asks before sandboxes are terminated. For persistent ones it first reads the size of their files.
func (m *Model) askTerminate() tea.Cmd {
	boxes := m.chosen()
	if slices.ContainsFunc(boxes, func(b core.Sandbox) bool { return b.Spec.Persist }) {
		return m.fx.sized(boxes)
	}
	return m.confirmTerminate(boxes)
}

func (m *Model) confirmTerminate(boxes []core.Sandbox) tea.Cmd {
	title := "Terminate " + boxes[0].Name + "?"
	if len(boxes) > 1 {
		title = fmt.Sprintf("Terminate %d sandboxes?", len(boxes))
	}
	lines := []string{"Their commands stop. Their files, logs and journals are removed. This cannot be undone.", ""}
	if len(boxes) == 1 {
		lines[0] = "Its commands stop. Its files, logs and journal are removed. This cannot be undone."
	}
	for _, b := range boxes {
		line := fmt.Sprintf("%s  %s  %s on %s", safe(b.Name), b.ID, stateWord(b), b.Provider)
		if b.Spec.Persist {
			line += ", persistent: " + sizeOr(b.Size, "size unknown")
		}
		lines = append(lines, line)
	}
	m.open(&question{title: title, lines: lines, choices: []choice{
		{key: "n", label: "Keep"}, {key: "y", label: "Terminate", request: terminateRequest{boxes}},
	}, cli: onAll([]string{"sb", "terminate"}, boxes)})
	return nil
}

// sizeOr returns a size as text, or unknown for zero.
func sizeOr(size core.Bytes, unknown string) string {
	if size == 0 {
		return unknown
	}
	return size.String()
}

func (m *Model) askExec() tea.Cmd {
	box := m.table.selected().box
	hint := "A shell command line. It keeps running after you quit. The Output tab shows its output."
	if m.options.TableOnly {
		hint = "A shell command line. It keeps running after you quit. \"sb logs\" shows its output."
	}
	p := newPrompt("Run in "+box.Name, hint, "", func(text string) (request, error) {
		if strings.TrimSpace(text) == "" {
			return nil, errors.New("enter a command")
		}
		return execRequest{box, []string{"/bin/sh", "-c", text}}, nil
	})
	p.cli = func(text string) string { return format.Quote("sb", "exec", box.Name, "-c", text) }
	m.open(p)
	return nil
}

func (m *Model) askTimeout() tea.Cmd {
	boxes := m.chosen()
	const hint = "The time left from now, such as 30m or 2h. 0 removes the limit."
	p := newPrompt("Timeout of "+screen.Cut(names(boxes), 40), hint, "", func(text string) (request, error) {
		d, err := core.ParseDuration(text)
		return timeoutRequest{boxes, time.Duration(d)}, err
	})
	p.cli = func(text string) string {
		return onAll([]string{"sb", "timeout", orElse(strings.TrimSpace(text), "0")}, boxes)
	}
	m.open(p)
	return nil
}

// askPolicy asks for a network policy: the name of a mode, or a list of allowed domains and CIDRs.
func (m *Model) askPolicy() tea.Cmd {
	e := m.table.selected()
	box, caps := e.box, e.from.caps
	current := string(box.Spec.Network.Mode)
	if box.Spec.Network.Mode == core.NetworkAllow {
		current = strings.Join(box.Spec.Network.Allow, " ")
	}
	var modes []string
	for _, mode := range networkModes() {
		if caps.Can(mode.want) {
			modes = append(modes, string(mode.mode))
		}
	}
	hint := "Modes: " + strings.Join(modes, ", ") + "."
	if caps.Can(core.CapNetAllow) {
		hint += " Or list the allowed domains and CIDRs: pypi.org 10.0.0.0/8."
	}
	p := newPrompt("Network policy of "+screen.Cut(box.Name, 40), hint, current, func(text string) (request, error) {
		network, err := parsePolicy(text, caps)
		return policyRequest{box, network}, err
	})
	p.cli = func(text string) string {
		network, _ := parsePolicy(text, caps) // best effort: the text may be incomplete
		if network.Mode == core.NetworkAllow {
			return format.Quote("sb", "policy", "set", box.Name, "--allow", strings.Join(network.Allow, ","))
		}
		mode := orElse(string(network.Mode), string(core.NetworkNone))
		return format.Quote("sb", "policy", "set", box.Name, "--network", mode)
	}
	m.open(p)
	return nil
}

// networkMode is a network policy without a list, and the capability it needs.
type networkMode struct {
	mode core.NetworkMode
	want core.Capability
}

func networkModes() []networkMode {
	return []networkMode{
		{core.NetworkAll, core.CapNetAll},
		{core.NetworkNone, core.CapNetNone},
		{core.NetworkInternal, core.CapNetInternal},
	}
}

// parsePolicy reads a typed policy. KindUnsupported: the provider does not support it.
func parsePolicy(text string, caps core.Capabilities) (core.Network, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	if len(words) == 0 {
		return core.Network{}, errors.New("enter a mode, or domains and CIDRs")
	}
	network, want := core.Network{Mode: core.NetworkAllow, Allow: words}, core.CapNetAllow
	for _, mode := range networkModes() {
		if len(words) == 1 && words[0] == string(mode.mode) {
			network, want = core.Network{Mode: mode.mode}, mode.want
		}
	}
	if err := network.Validate(); err != nil {
		return network, err
	}
	if !caps.Can(want) {
		return network, core.Errorf(core.KindUnsupported, "policy set", "",
			"the provider does not support network policy %q", network.Mode)
	}
	return network, nil
}

func (m *Model) askSnapshot() tea.Cmd {
	box := m.table.selected().box
	const hint = "An optional name. Without one the provider chooses. The launch form accepts it under Snapshot."
	m.open(named("Snapshot of "+box.Name, hint,
		func(name string) request { return snapshotRequest{box, name} },
		func(name string) []string {
			if name == "" {
				return []string{"sb", "snapshot", box.Name}
			}
			return []string{"sb", "snapshot", box.Name, name}
		}))
	return nil
}

// named asks for an optional name.
func named(title, hint string, of func(name string) request, argv func(name string) []string) *prompt {
	p := newPrompt(title, hint, "", func(text string) (request, error) { return of(strings.TrimSpace(text)), nil })
	p.cli = func(text string) string { return format.Quote(argv(strings.TrimSpace(text))...) }
	return p
}

// onAll returns a command line with the names of several sandboxes.
func onAll(argv []string, boxes []core.Sandbox) string {
	for _, b := range boxes {
		argv = append(argv, b.Name)
	}
	return format.Quote(argv...)
}

func (m *Model) askFork() tea.Cmd {
	box := m.table.selected().box
	const hint = "An optional name for the copy. The copy starts with the same processes, memory and files."
	m.open(named("Fork of "+box.Name, hint,
		func(name string) request { return forkRequest{box, name} },
		func(name string) []string {
			if name == "" {
				return []string{"sb", "fork", box.Name}
			}
			return []string{"sb", "fork", "--name", name, box.Name}
		}))
	return nil
}

// askMove asks for the target provider, and whether the original is terminated.
func (m *Model) askMove() tea.Cmd {
	box := m.table.selected().box
	var items []item
	for _, s := range m.inv.sources {
		if s.name == box.Provider || !s.caps.Can(core.CapFiles) {
			continue
		}
		items = append(items,
			item{
				label: "to " + s.name, detail: "then terminate the original", request: moveRequest{box, s.name, false},
				cli: format.Quote("sb", "move", box.Name, "--to", s.name),
			},
			item{
				label: "to " + s.name + ", keep the original", request: moveRequest{box, s.name, true},
				cli: format.Quote("sb", "move", box.Name, "--to", s.name, "--keep"),
			})
	}
	m.open(newPicker("Move "+box.Name+": copies files, restarts commands", items))
	return nil
}

func (m *Model) askCheckpoint() tea.Cmd {
	box := m.table.selected().box
	const hint = "An optional name. A checkpoint holds memory and files, secrets included: protect it like the sandbox."
	m.open(named("Checkpoint of "+box.Name, hint,
		func(name string) request { return checkpointRequest{box, name} },
		func(name string) []string {
			if name == "" {
				return []string{"sb", "checkpoint", "create", box.Name}
			}
			return []string{"sb", "checkpoint", "create", "--name", name, box.Name}
		}))
	return nil
}

// openStores shows the stores of all providers.
func (m *Model) openStores() tea.Cmd {
	d := &storeDialog{now: m.options.Now}
	for _, s := range stores() {
		if s.want == "" || m.inv.anyCan(s.want) {
			d.stores = append(d.stores, s)
		}
	}
	m.open(d)
	return m.fx.listStore(d.store())
}

func (m *Model) askPush() tea.Cmd {
	box, to := m.table.selected().box, "."
	if m.focus == paneDetail && m.detail.tab == tabFiles {
		to = m.detail.files.here()
	}
	hint := "LOCAL [TARGET]: a local file or directory, and a path in the sandbox (default " + format.Quote(to) +
		"). Quote spaces as in a shell."
	p := newPrompt("Push into "+box.Name, hint, "", func(text string) (request, error) {
		from, target, err := twoPaths(text, to)
		return pushRequest{box, from, target}, err
	})
	p.cli = func(text string) string {
		from, target, _ := twoPaths(text, to) // best effort: the text may be incomplete
		return format.Quote("sb", "push", from, box.Name+":"+target)
	}
	m.open(p)
	return nil
}

func (m *Model) askPull() tea.Cmd {
	box, from := m.table.selected().box, ""
	if info, ok := m.detail.files.selected(); ok && m.focus == paneDetail && m.detail.tab == tabFiles {
		from = format.Quote(info.Path, ".")
	}
	const hint = "PATH [LOCAL]: a path in the sandbox, and a local path (default: the working directory). " +
		"Quote spaces as in a shell."
	p := newPrompt("Pull from "+box.Name, hint, from, func(text string) (request, error) {
		path, target, err := twoPaths(text, ".")
		return pullRequest{box, path, target}, err
	})
	p.cli = func(text string) string {
		path, target, _ := twoPaths(text, ".") // best effort: the text may be incomplete
		return format.Quote("sb", "pull", box.Name+":"+path, target)
	}
	m.open(p)
	return nil
}

// twoPaths reads a source and an optional target, which defaults to other.
func twoPaths(text, other string) (from, to string, err error) {
	list, err := format.Words(text)
	switch {
	case err != nil:
		return "", other, err
	case len(list) == 0:
		return "", other, errors.New("enter a path")
	case len(list) == 1:
		return list[0], other, nil
	case len(list) > 2:
		err = errors.New("more than two paths; quote names with spaces")
	}
	return list[0], list[1], err
}

func (m *Model) askSave() tea.Cmd {
	e := m.table.selected()
	if e == nil {
		return nil
	}
	name := e.box.Name + "-" + m.detail.output.exec + ".log"
	text := m.detail.output.text()
	const hint = "A new file. Existing files are not overwritten."
	p := newPrompt("Save the output", hint, name, func(path string) (request, error) {
		if strings.TrimSpace(path) == "" {
			return nil, errors.New("enter a path")
		}
		return saveRequest{path, text}, nil
	})
	exec := m.detail.output.exec
	p.cli = func(path string) string {
		return format.Quote("sb", "logs", e.box.Name, exec) + " > " + format.Quote(path)
	}
	m.open(p)
	return nil
}

func (m *Model) askKill() tea.Cmd {
	e, ok := m.detail.execs.selected()
	box := m.table.selected()
	if !ok || box == nil {
		return nil
	}
	var items []item
	for _, s := range []struct {
		name   string
		number int
	}{
		{"TERM: ask it to exit", 15},
		{"INT: same as Ctrl-C", 2},
		{"KILL: end it immediately", 9},
		{"HUP", 1},
		{"USR1", 10},
		{"USR2", 12},
		{"STOP", 19},
		{"CONT", 18},
	} {
		items = append(items, item{
			label: s.name, request: killRequest{box.box, e.ID, s.number},
			cli: format.Quote("sb", "kill", "--signal", fmt.Sprint(s.number), box.box.Name, e.ID),
		})
	}
	m.open(newPicker("Signal for "+e.ID+": "+screen.Cut(safe(strings.Join(e.Command, " ")), 40), items))
	return nil
}

func (m *Model) askDelete() tea.Cmd {
	info, ok := m.detail.files.selected()
	e := m.table.selected()
	if !ok || e == nil {
		return nil
	}
	warning := "The file is removed."
	if info.Mode.IsDir() {
		warning = "The directory and everything in it are removed."
	}
	m.open(&question{
		title: "Delete " + screen.Cut(safe(info.Path), 50) + "?",
		lines: []string{warning + " This cannot be undone.", "", safe(info.Path) + " in " + safe(e.box.Name)},
		choices: []choice{
			{key: "n", label: "Keep"}, {key: "y", label: "Delete", request: removeRequest{e.box, info}},
		},
		cli: removeLine(e.box, info),
	})
	return nil
}

func removeLine(box core.Sandbox, info core.FileInfo) string {
	if info.Mode.IsDir() {
		return format.Quote("sb", "fs", "rm", "-r", box.Name, info.Path)
	}
	return format.Quote("sb", "fs", "rm", box.Name, info.Path)
}

func (m *Model) askTheme() tea.Cmd {
	var items []item
	for _, chosen := range theme.Names() {
		cli := format.Quote("sb", "config", "set", "ui.theme", chosen)
		items = append(items, item{label: chosen, request: themeRequest{chosen}, cli: cli})
	}
	m.open(newPicker("Theme", items))
	return nil
}

func (m *Model) askJobs() tea.Cmd {
	var items []item
	for _, j := range m.jobs {
		items = append(items, item{label: j.title, detail: "cancel", request: cancelRequest{j.id}})
	}
	if len(items) > 0 {
		m.open(newPicker("Cancel", items))
	}
	return nil
}

// quit ends the dashboard. While jobs are running it asks first.
func (m *Model) quit() tea.Cmd {
	if len(m.jobs) == 0 {
		return tea.Quit
	}
	var lines []string
	for _, j := range m.jobs {
		lines = append(lines, safe(j.title))
	}
	lines = append(lines, "", "Sandboxes keep running after you quit. Jobs do not.")
	m.open(&question{title: format.Plural(len(m.jobs), "job is", "jobs are") +
		" still running", lines: lines, choices: []choice{
		{key: "n", label: "Stay"},
		{key: "w", label: "Quit when done", request: quitRequest{wait: true}},
		{key: "y", label: "Cancel and quit", request: quitRequest{}},
	}})
	return nil
}

func (m *Model) openPort() tea.Cmd { return m.fx.tunnels(m.table.selected().box) }

// choosePort opens the only port, or asks which of several.
func (m *Model) choosePort(msg tunnelsMsg) tea.Cmd {
	switch {
	case msg.err != nil:
		return m.fail("open", msg.err)
	case len(msg.tunnels) == 0:
		return m.warn(msg.box.Name+" has no published ports", "")
	case len(msg.tunnels) == 1:
		return m.perform(openRequest{tunnelURL(msg.tunnels[0])})
	}
	var items []item
	for _, t := range msg.tunnels {
		items = append(items, item{label: fmt.Sprint(t.Port), detail: tunnelURL(t), request: openRequest{tunnelURL(t)}})
	}
	m.open(newPicker("Open which port?", items))
	return nil
}

// tunnelURL returns the address of a published port for a browser.
func tunnelURL(t core.Tunnel) string { return orElse(t.URL, "http://"+t.Address) }

func (m *Model) openPalette() tea.Cmd {
	var items []item
	for _, c := range m.commands {
		if c.group == groupMove || c.id == "palette" || !m.possible(c) {
			continue
		}
		it := item{label: c.title, detail: keyNames(m.keys[c.id]), request: commandRequest{c.id}}
		if c.cli != nil {
			it.cli = c.cli(m)
		}
		items = append(items, it)
	}
	m.open(newPicker("Commands", items))
	return nil
}

func keyNames(keys []string) string { return strings.Join(keys, " ") }

// openHelp shows the key map.
func (m *Model) openHelp() tea.Cmd {
	m.open(&pager{title: "Help", lines: func(s *theme.Styles, w int) []string {
		lines := []string{s.Faint.On("All commands: " + strings.Join(m.keys["palette"], " or ") +
			". Mouse: click, wheel, drag the splitter")}
		for _, g := range groups() {
			title := []string{"", s.Header.On(g)}
			for _, c := range m.commands {
				if c.group == g && len(m.keys[c.id]) > 0 && m.has(c) {
					keys := s.Key.On(screen.FitRight(keyNames(m.keys[c.id]), 18))
					lines = append(append(lines, title...), keys+"  "+s.Text.On(screen.Cut(c.title, w-20)))
					title = nil
				}
			}
		}
		return lines
	}})
	return nil
}

// hanging wraps text between words after a head that is indent cells wide. Later lines are indented as far.
func hanging(head string, indent int, p theme.Paint, text string, cells int) []string {
	lines := screen.Prose(text, cells-indent)
	for i, l := range lines {
		if lines[i] = screen.Blanks(indent) + p.On(l); i == 0 {
			lines[i] = head + p.On(l)
		}
	}
	return lines
}

// openMessages shows the log of notices, the newest first.
func (m *Model) openMessages() tea.Cmd {
	log := slices.Clone(m.notices.log)
	slices.Reverse(log)
	m.open(&pager{title: "Messages", wide: true, lines: func(s *theme.Styles, w int) []string {
		if len(log) == 0 {
			return []string{s.Faint.On("no messages yet")}
		}
		var lines []string
		for _, n := range log {
			p := map[severity]theme.Paint{severityInfo: s.Text, severityWarn: s.Warn, severityBad: s.Bad}[n.severity]
			lines = append(lines, hanging(s.Faint.On(n.at.Local().Format("15:04:05")+"  "), 10, p, n.text, w)...)
			if n.hint != "" {
				lines = append(lines, hanging(screen.Blanks(10), 10, s.Faint, "→ "+n.hint, w)...)
			}
		}
		return lines
	}})
	return nil
}

// openProviders lists the providers with their health.
func (m *Model) openProviders() tea.Cmd {
	var items []item
	for _, s := range m.inv.sources {
		items = append(items, item{label: s.name, detail: m.health(s), request: diagnoseRequest{s.name}, cli: "sb doctor"})
	}
	m.open(newPicker("Providers · enter runs the doctor", items))
	return nil
}

// health describes a provider's state in a few words.
func (m *Model) health(s *source) string {
	age, overdue := s.old(m.now)
	switch {
	case overdue && (s.failed == nil || s.failed.Kind == core.KindTimeout) && !s.listed.IsZero():
		return "no answer for " + format.Span(age)
	case s.failed != nil && s.failed.Hint != "":
		return safe(s.failed.Error + " → " + s.failed.Hint)
	case s.failed != nil:
		return safe(s.failed.Error)
	case overdue:
		return "no answer"
	case s.status == nil:
		return "…"
	case !s.status.Usable:
		return safe(s.status.Error + " → " + s.status.Hint)
	}
	return "ready · " + safe(s.caps.Isolation)
}

// openDiagnosis shows the doctor's findings.
func (m *Model) openDiagnosis(status service.ProviderStatus) {
	m.open(&pager{title: status.Name, lines: func(s *theme.Styles, w int) []string {
		state := "ready"
		if !status.Usable {
			state = "not usable"
		}
		lines := facts(s, w, "state", state, "error", status.Error, "fix", status.Hint,
			"isolation", status.Capabilities.Isolation, "images", strings.Join(status.Capabilities.Images, ", "))
		if len(status.Findings) > 0 {
			lines = append(lines, "")
		}
		for _, f := range status.Findings {
			marks := map[string]string{"ok": s.Good.On("✓ "), "warning": s.Warn.On("! "), "error": s.Bad.On("✗ ")}
			lines = append(lines, hanging(marks[f.Status], 2, s.Text, safe(f.Name+" "+f.Detail), w)...)
			if f.Fix != "" {
				lines = append(lines, hanging("  ", 2, s.Faint, "→ "+safe(f.Fix), w)...)
			}
		}
		return lines
	}})
}

// shownLine returns the command line that prints the current view.
func (m *Model) shownLine() string {
	name := m.table.selected().box.Name
	if m.focus == paneTable {
		return format.Quote("sb", "inspect", name)
	}
	switch m.detail.tab {
	case tabOutput:
		if m.detail.output.exec != entryExec && m.detail.output.exec != "" {
			return format.Quote("sb", "logs", "--follow", name, m.detail.output.exec)
		}
		return format.Quote("sb", "logs", "--follow", name)
	case tabExecs:
		return format.Quote("sb", "ps", name)
	case tabFiles:
		return format.Quote("sb", "fs", "ls", name, path.Clean(m.detail.files.here()))
	case tabNetwork:
		return format.Quote("sb", "policy", "show", name)
	case tabStats:
		return format.Quote("sb", "stats", name)
	case tabHistory:
		return format.Quote("sb", "history", name)
	}
	return format.Quote("sb", "inspect", name)
}
