package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/format"
)

// scope is the place where a command's keys work. The narrower scope wins.
type scope int

const (
	scopeGlobal scope = iota
	scopeTable
	scopeDetail
	scopeOutput
	scopeExecs
	scopeFiles
)

// command is one action of a key or the palette. The key map, the help and the palette are built from these.
type command struct {
	id, title string
	group     string
	scope     scope
	keys      []string
	// brief is the title in the footer; "" leaves the command out of the footer.
	brief string
	// can reports whether the command is possible now; nil means always.
	can func(m *Model) bool
	run func(m *Model) tea.Cmd
	// cli returns the equivalent command line; nil means there is none.
	cli func(m *Model) string
	// panes marks commands about the detail pane, which "sb top" does not have.
	panes bool
}

// The groups of the help, in order.
const (
	groupActions = "Sandboxes"
	groupView    = "View"
	groupMove    = "Navigation"
	groupOutput  = "Output"
	groupExecs   = "Execs"
	groupFiles   = "Files"
	groupGeneral = "General"
)

func groups() []string {
	return []string{groupActions, groupView, groupMove, groupOutput, groupExecs, groupFiles, groupGeneral}
}

// allCommands returns all commands with their default keys.
func allCommands() []command {
	return slices.Concat(actionCommands(), viewCommands(), moveCommands(), outputCommands(), execsCommands(),
		filesCommands(), generalCommands())
}

func actionCommands() []command {
	selected := func(m *Model) bool { return m.table.selected() != nil }
	live := func(m *Model) bool { return !dead(m.table.selected()) }
	runs := func(m *Model) bool { return running(m.table.selected()) }
	capable := func(want core.Capability, also func(*Model) bool) func(*Model) bool {
		return func(m *Model) bool { return also(m) && m.inv.can(m.table.selected(), want) }
	}
	all := func(argv ...string) func(m *Model) string {
		return func(m *Model) string { return onAll(slices.Clone(argv), m.chosen()) }
	}
	on := func(words ...string) func(m *Model) string {
		return func(m *Model) string {
			e := m.table.selected()
			if e == nil {
				return ""
			}
			return format.Quote(append(slices.Clone(words), e.box.Name)...)
		}
	}
	return []command{
		{
			id: "launch", title: "Launch a sandbox …", group: groupActions, keys: []string{"L"}, brief: "launch",
			run: (*Model).askLaunch,
			cli: func(*Model) string { return "sb launch" },
		},
		{
			id: "exec", title: "Run a command …", group: groupActions, keys: []string{"e"}, brief: "exec",
			can: runs,
			run: (*Model).askExec,
		},
		{
			id: "shell", title: "Open a shell", group: groupActions, keys: []string{"s"}, brief: "shell",
			can: func(m *Model) bool { return capable(core.CapTTY, runs)(m) && m.options.Shell != nil },
			run: (*Model).openShell,
			cli: on("sb", "shell"),
		},
		{
			id: "logs", title: "Show the output", group: groupActions, keys: []string{"l"}, brief: "logs", panes: true,
			can: selected,
			run: func(m *Model) tea.Cmd { return m.openTab(tabOutput) },
			cli: on("sb", "logs", "--follow"),
		},
		{
			id: "push", title: "Push files into the sandbox …", group: groupActions, keys: []string{"P"},
			can: capable(core.CapFiles, runs),
			run: (*Model).askPush,
		},
		{
			id: "pull", title: "Pull files from the sandbox …", group: groupActions, keys: []string{"U"},
			can: capable(core.CapFiles, runs),
			run: (*Model).askPull,
		},
		{
			id: "pause", title: "Pause or resume", group: groupActions, keys: []string{"p"},
			can: capable(core.CapPause, func(m *Model) bool {
				return runs(m) || selected(m) && m.table.selected().box.State == core.StatePaused
			}),
			run: (*Model).togglePause,
			cli: func(m *Model) string {
				if runs(m) {
					return all("sb", "pause")(m)
				}
				return all("sb", "resume")(m)
			},
		},
		{
			id: "stop", title: "Stop or start a persistent sandbox", group: groupActions, keys: []string{"S"},
			can: capable(core.CapStop, func(m *Model) bool { return selected(m) && m.table.selected().box.Spec.Persist }),
			run: (*Model).toggleStop,
			cli: func(m *Model) string {
				if runs(m) {
					return all("sb", "stop")(m)
				}
				return all("sb", "start")(m)
			},
		},
		{
			id: "snapshot", title: "Take a snapshot of the files …", group: groupActions, keys: []string{"I"},
			can: capable(core.CapSnapshots, selected),
			run: (*Model).askSnapshot,
		},
		{
			id: "fork", title: "Fork: copy the running sandbox …", group: groupActions, keys: []string{"F"},
			can: capable(core.CapFork, runs),
			run: (*Model).askFork,
		},
		{
			id: "checkpoint", title: "Take a checkpoint of memory and files …", group: groupActions, keys: []string{"H"},
			can: capable(core.CapCheckpoint, runs),
			run: (*Model).askCheckpoint,
		},
		{
			id: "move", title: "Move to another provider …", group: groupActions, keys: []string{"M"},
			can: capable(core.CapFiles, func(m *Model) bool { return runs(m) && len(m.inv.sources) > 1 }),
			run: (*Model).askMove,
		},
		{
			id: "timeout", title: "Set the timeout …", group: groupActions, keys: []string{"t"},
			can: capable(core.CapRenew, live),
			run: (*Model).askTimeout,
		},
		{
			id: "policy", title: "Change the network policy …", group: groupActions, keys: []string{"A"},
			can: capable(core.CapNetworkUpdate, runs),
			run: (*Model).askPolicy,
		},
		{
			id: "open", title: "Open a port in the browser", group: groupActions, keys: []string{"o"},
			can: func(m *Model) bool { return runs(m) && publishes(m.table.selected().box) },
			run: (*Model).openPort,
			cli: on("sb", "port"),
		},
		{
			id: "copy-id", title: "Copy the ID", group: groupActions, keys: []string{"c"},
			can: selected,
			run: func(m *Model) tea.Cmd { return m.perform(copyRequest{"id", m.table.selected().box.ID}) },
		},
		{
			id: "yank", title: "Copy the sb command for this view", group: groupActions, keys: []string{"y"},
			can: selected,
			run: func(m *Model) tea.Cmd { return m.perform(copyRequest{"command", m.shownLine()}) },
		},
		{
			id: "terminate", title: "Terminate …", group: groupActions, keys: []string{"x", "delete"}, brief: "terminate",
			can: func(m *Model) bool { return len(m.table.chosen()) > 0 },
			run: (*Model).askTerminate,
			cli: all("sb", "terminate"),
		},
		{
			id: "mark", title: "Mark", group: groupActions, scope: scopeTable, keys: []string{"space"},
			can: selected,
			run: func(m *Model) tea.Cmd { m.table.mark(); return nil },
		},
		{
			id: "mark-all", title: "Mark all shown sandboxes of yours, or none", group: groupActions, scope: scopeTable,
			keys: []string{"*"},
			run:  (*Model).markAll,
		},
	}
}

func viewCommands() []command {
	set := func(change func(m *Model)) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd {
			change(m)
			m.stale = true
			return m.changed()
		}
	}
	list := []command{
		{
			id: "search", title: "Search in the tab", group: groupView, scope: scopeDetail, keys: []string{"/"}, brief: "search",
			run: func(m *Model) tea.Cmd { m.beginLine(lineSearch, ""); return nil },
		},
		{
			id: "next-match", title: "Next match", group: groupView, scope: scopeDetail, keys: []string{"n"},
			run: func(m *Model) tea.Cmd { return m.search(1) },
		},
		{
			id: "previous-match", title: "Previous match", group: groupView, scope: scopeDetail, keys: []string{"N"},
			run: func(m *Model) tea.Cmd { return m.search(-1) },
		},
		{
			id: "filter", title: "Filter", group: groupView, scope: scopeTable, keys: []string{"/"}, brief: "filter",
			run: func(m *Model) tea.Cmd { m.beginLine(lineFilter, m.table.filter); return nil },
		},
		{
			id: "sort-next", title: "Sort by the next column", group: groupView, scope: scopeTable, keys: []string{">"},
			brief: "sort",
			run:   set(func(m *Model) { m.table.sortNext(1) }),
		},
		{
			id: "sort-previous", title: "Sort by the previous column", group: groupView, scope: scopeTable,
			keys: []string{"<"},
			run:  set(func(m *Model) { m.table.sortNext(-1) }),
		},
		{
			id: "reverse", title: "Reverse the order", group: groupView, scope: scopeTable, keys: []string{"r"},
			run: set(func(m *Model) { m.table.reverse = !m.table.reverse }),
		},
		{
			id: "group", title: "Group by app, provider or nothing", group: groupView, keys: []string{"b"},
			run: set(func(m *Model) {
				next := map[string]string{groupNone: groupApp, groupApp: groupProvider, groupProvider: groupNone}
				m.table.group = next[m.table.group]
			}),
		},
		{
			id: "dead", title: "Show or hide dead sandboxes", group: groupView, keys: []string{"d"},
			run: set(func(m *Model) { m.table.hideDead = !m.table.hideDead }),
		},
		{
			id: "focus", panes: true, title: "Go to the other pane", group: groupView, keys: []string{"tab", "shift+tab"},
			run: func(m *Model) tea.Cmd { m.focusOn(1 - m.focus); return nil },
		},
		{
			id: "detail", panes: true, title: "Show details", group: groupView, scope: scopeTable, keys: []string{"enter"},
			run: func(m *Model) tea.Cmd { m.focusOn(paneDetail); return nil },
		},
		{
			id: "zoom", panes: true, title: "Zoom the pane", group: groupView, keys: []string{"z"},
			run: func(m *Model) tea.Cmd { m.zoomed = !m.zoomed; return nil },
		},
		{
			id: "split", panes: true, title: "Panes side by side or stacked", group: groupView, keys: []string{"|"},
			run: func(m *Model) tea.Cmd {
				m.split = map[bool]string{true: splitStack, false: splitSide}[m.layout.side]
				return m.changed()
			},
		},
		{
			id: "grow", panes: true, title: "Grow the table", group: groupView, keys: []string{"+", "="},
			run: func(m *Model) tea.Cmd { m.ratio = min(m.ratio+5, 90); return m.changed() },
		},
		{
			id: "shrink", panes: true, title: "Shrink the table", group: groupView, keys: []string{"-"},
			run: func(m *Model) tea.Cmd { m.ratio = max(m.ratio-5, 10); return m.changed() },
		},
		{
			id: "tab-next", panes: true, title: "Next tab", group: groupView, keys: []string{"]"},
			run: func(m *Model) tea.Cmd { return m.selectTab((m.detail.tab + 1) % len(tabNames())) },
		},
		{
			id: "tab-previous", panes: true, title: "Previous tab", group: groupView, keys: []string{"["},
			run: func(m *Model) tea.Cmd { return m.selectTab((m.detail.tab + len(tabNames()) - 1) % len(tabNames())) },
		},
		{id: "theme", title: "Choose a theme …", group: groupView, keys: []string{"T"}, run: (*Model).askTheme},
	}
	for i, name := range tabNames() {
		list = append(list, command{
			id: "tab-" + strings.ToLower(name), title: "Show " + name, group: groupView, keys: []string{string(rune('1' + i))},
			panes: true,
			run:   func(m *Model) tea.Cmd { return m.openTab(i) },
		})
	}
	for _, c := range columns() {
		list = append(list, command{
			id: "sort-" + c.id, title: "Sort by " + strings.ToLower(c.title), group: groupView,
			run: set(func(m *Model) { m.table.sort, m.table.reverse = c.id, false }),
		})
	}
	return list
}

func moveCommands() []command {
	move := func(id, title string, by func(m *Model) int, keys ...string) command {
		run := func(m *Model) tea.Cmd { return m.move(by(m)) }
		return command{id: id, title: title, group: groupMove, keys: keys, run: run}
	}
	const far = 1 << 30
	page := func(m *Model) int {
		if m.focus == paneTable {
			return m.table.page()
		}
		return m.detail.page()
	}
	return []command{
		move("up", "Up", func(*Model) int { return -1 }, "up", "k"),
		move("down", "Down", func(*Model) int { return 1 }, "down", "j"),
		move("page-up", "Page up", func(m *Model) int { return -page(m) }, "pgup", "ctrl+b"),
		move("page-down", "Page down", func(m *Model) int { return page(m) }, "pgdown", "ctrl+f"),
		move("first", "First", func(*Model) int { return -far }, "home", "g"),
		move("last", "Last", func(*Model) int { return far }, "end", "G"),
		{id: "back", title: "Back", group: groupMove, keys: []string{"esc"}, run: (*Model).back},
	}
}

func outputCommands() []command {
	return []command{
		{
			id: "follow", title: "Follow new output", group: groupOutput, scope: scopeOutput, keys: []string{"f"},
			brief: "follow",
			run: func(m *Model) tea.Cmd {
				m.detail.output.follow = !m.detail.output.follow
				return nil
			},
		},
		{
			id: "wrap", title: "Wrap long lines", group: groupOutput, scope: scopeOutput, keys: []string{"w"}, brief: "wrap",
			run: func(m *Model) tea.Cmd {
				m.detail.output.wrap = !m.detail.output.wrap
				m.detail.output.sub, m.detail.output.left = 0, 0
				return m.changed()
			},
		},
		{
			id: "times", title: "Show times", group: groupOutput, scope: scopeOutput, keys: []string{"i"}, brief: "times",
			run: func(m *Model) tea.Cmd {
				m.detail.output.times = !m.detail.output.times
				return m.changed()
			},
		},
		{
			id: "source-next", title: "Output of the next command", group: groupOutput, scope: scopeOutput,
			keys: []string{"."}, brief: "command",
			run: func(m *Model) tea.Cmd { return m.nextSource(1) },
		},
		{
			id: "source-previous", title: "Output of the previous command", group: groupOutput, scope: scopeOutput,
			keys: []string{","},
			run:  func(m *Model) tea.Cmd { return m.nextSource(-1) },
		},
		{
			id: "left", title: "Scroll left", group: groupOutput, scope: scopeOutput, keys: []string{"left"},
			run: func(m *Model) tea.Cmd {
				m.detail.output.left = max(0, m.detail.output.left-8)
				return nil
			},
		},
		{
			id: "right", title: "Scroll right", group: groupOutput, scope: scopeOutput, keys: []string{"right"},
			run: func(m *Model) tea.Cmd {
				if !m.detail.output.wrap {
					m.detail.output.left += 8
				}
				return nil
			},
		},
		{
			id: "copy-output", title: "Copy the output", group: groupOutput, scope: scopeOutput, keys: []string{"C"},
			run: func(m *Model) tea.Cmd { return m.perform(copyRequest{"output", m.detail.output.text()}) },
		},
		{
			id: "save-output", title: "Save the output …", group: groupOutput, scope: scopeOutput, keys: []string{"W"},
			run: (*Model).askSave,
		},
	}
}

func execsCommands() []command {
	return []command{
		{
			id: "exec-output", title: "Show the command's output", group: groupExecs, scope: scopeExecs,
			keys: []string{"enter"}, brief: "output",
			can: func(m *Model) bool { _, ok := m.detail.execs.selected(); return ok },
			run: func(m *Model) tea.Cmd {
				e, _ := m.detail.execs.selected()
				return m.perform(sourceRequest{e.ID})
			},
		},
		{
			id: "kill", title: "Send a signal …", group: groupExecs, scope: scopeExecs, keys: []string{"K"}, brief: "kill",
			can: func(m *Model) bool {
				e, ok := m.detail.execs.selected()
				return ok && e.Running()
			},
			run: (*Model).askKill,
		},
	}
}

func filesCommands() []command {
	file := func(m *Model) bool { _, ok := m.detail.files.selected(); return ok }
	return []command{
		{
			id: "file-open", title: "Open a directory, show a file", group: groupFiles, scope: scopeFiles,
			keys: []string{"enter", "right"}, brief: "open",
			can: file,
			run: (*Model).openFile,
		},
		{
			id: "file-shut", title: "Close the directory", group: groupFiles, scope: scopeFiles, keys: []string{"left"},
			run: func(m *Model) tea.Cmd { m.detail.files.shut(); return nil },
		},
		{
			id: "file-reload", title: "Reload the directory", group: groupFiles, scope: scopeFiles, keys: []string{"R"},
			run: func(m *Model) tea.Cmd { return m.reloadDir(m.detail.files.here()) },
		},
		{
			id: "file-edit", title: "Edit in $EDITOR", group: groupFiles, scope: scopeFiles, keys: []string{"E"},
			brief: "edit",
			can: func(m *Model) bool {
				info, ok := m.detail.files.selected()
				return ok && info.Mode.IsRegular() && m.options.Edit != nil
			},
			run: (*Model).editFile,
		},
		{
			id: "file-delete", title: "Delete …", group: groupFiles, scope: scopeFiles, keys: []string{"D", "delete"},
			brief: "delete",
			can:   file,
			run:   (*Model).askDelete,
		},
		{
			id: "preview-down", title: "Scroll the preview down", group: groupFiles, scope: scopeFiles, keys: []string{"J"},
			run: func(m *Model) tea.Cmd { m.detail.files.above++; return nil },
		},
		{
			id: "preview-up", title: "Scroll the preview up", group: groupFiles, scope: scopeFiles, keys: []string{"K"},
			run: func(m *Model) tea.Cmd {
				m.detail.files.above = max(0, m.detail.files.above-1)
				return nil
			},
		},
	}
}

func generalCommands() []command {
	return []command{
		{
			id: "palette", title: "All commands …", group: groupGeneral, keys: []string{":", "ctrl+p"}, brief: "commands",
			run: (*Model).openPalette,
		},
		{id: "help", title: "Help", group: groupGeneral, keys: []string{"?"}, brief: "help", run: (*Model).openHelp},
		{
			id: "kept", title: "Volumes, secrets, images, snapshots, apps …", group: groupGeneral, keys: []string{"V"},
			run: (*Model).openStores,
		},
		{
			id: "providers", title: "Providers and their health", group: groupGeneral, keys: []string{"v"},
			run: (*Model).openProviders,
			cli: func(*Model) string { return "sb doctor" },
		},
		{
			id: "messages", title: "Messages", group: groupGeneral, keys: []string{"m"},
			run: (*Model).openMessages,
			cli: func(*Model) string { return "sb events" },
		},
		{
			id: "jobs", title: "Cancel a running job …", group: groupGeneral, keys: []string{"X"},
			can: func(m *Model) bool { return len(m.jobs) > 0 },
			run: (*Model).askJobs,
		},
		{
			id: "refresh", title: "Refresh and redraw", group: groupGeneral, keys: []string{"ctrl+r", "ctrl+l"},
			run: (*Model).refresh,
		},
		{
			id: "suspend", title: "Suspend to the background", group: groupGeneral, keys: []string{"ctrl+z"},
			can: func(m *Model) bool { return m.options.Suspend != nil },
			run: func(m *Model) tea.Cmd { return m.aside(m.options.Suspend) },
		},
		{id: "quit", title: "Quit", group: groupGeneral, keys: []string{"q", "ctrl+c"}, brief: "quit", run: (*Model).quit},
	}
}

// keyMap has the keys of each command, by command id.
type keyMap map[string][]string

// newKeyMap replaces default keys with the user's keys. A key assigned to one command is removed from every command
// that it would shadow. KindUsage: an unknown command, or a key assigned twice in the same place.
func newKeyMap(own map[string][]string) (keyMap, error) {
	keys := keyMap{}
	var names []string
	for _, c := range allCommands() {
		keys[c.id] = c.keys
		names = append(names, c.id)
	}
	for id, with := range own {
		if _, ok := keys[id]; !ok {
			err := core.Errorf(core.KindUsage, "ui", "ui.keys", "ui.keys: unknown dashboard command %q", id)
			if near := core.Nearest(id, names); near != "" {
				return nil, err.WithHint("did you mean %q?", near)
			}
			return nil, err.WithHint("see the list of commands in docs/dashboard.md")
		}
		keys[id] = with
	}
	for _, given := range allCommands() {
		for _, key := range own[given.id] {
			for _, c := range allCommands() {
				if c.id == given.id || !slices.Contains(keys[c.id], key) || !c.scope.hides(given.scope) {
					continue
				}
				if _, chosen := own[c.id]; !chosen {
					keys[c.id] = slices.DeleteFunc(slices.Clone(keys[c.id]), func(k string) bool { return k == key })
				} else if c.scope == given.scope {
					return nil, core.Errorf(core.KindUsage, "ui", "ui.keys",
						"ui.keys: key %q is assigned to both %s and %s", key, given.id, c.id)
				}
			}
		}
	}
	return keys, nil
}

// hides reports whether a key in this scope can shadow the same key in the other.
func (s scope) hides(other scope) bool {
	return s == other || other == scopeGlobal || other == scopeDetail && s > scopeDetail
}

// ParseKeys reads the ui.keys setting, such as "launch=ctrl+n quit=q,ctrl+q". "quit=" removes all keys of quit.
// KindUsage: bad syntax, an unknown command, or a key assigned twice in the same place.
func ParseKeys(text string) (map[string][]string, error) {
	own := map[string][]string{}
	for word := range strings.FieldsSeq(text) {
		id, keys, ok := strings.Cut(word, "=")
		if !ok || id == "" {
			return nil, core.Errorf(core.KindUsage, "ui", "ui.keys", "ui.keys: %q: expected COMMAND=KEY[,KEY...]", word).
				WithHint("for example: launch=ctrl+n quit=q,ctrl+q")
		}
		own[id] = nil
		for key := range strings.SplitSeq(keys, ",") {
			if key != "" {
				own[id] = append(own[id], key)
			}
		}
	}
	_, err := newKeyMap(own)
	return own, err
}

// scopes returns the active scopes, the narrowest first.
func (m *Model) scopes() []scope {
	if m.focus == paneTable {
		return []scope{scopeTable, scopeGlobal}
	}
	switch m.detail.tab {
	case tabOutput:
		return []scope{scopeOutput, scopeDetail, scopeGlobal}
	case tabExecs:
		return []scope{scopeExecs, scopeDetail, scopeGlobal}
	case tabFiles:
		return []scope{scopeFiles, scopeDetail, scopeGlobal}
	}
	return []scope{scopeDetail, scopeGlobal}
}

// commandFor returns the command of a key and whether it is possible now. A command of a narrow scope that is not
// possible now still shadows wider scopes, where the key may do something unrelated.
func (m *Model) commandFor(key string) (command, bool) {
	for _, scope := range m.scopes() {
		for _, c := range m.commands {
			if c.scope == scope && slices.Contains(m.keys[c.id], key) {
				return c, m.ready(c)
			}
		}
	}
	return command{}, false
}

// possible reports whether a command's scope is active and the command is ready.
func (m *Model) possible(c command) bool {
	return slices.Contains(m.scopes(), c.scope) && m.ready(c)
}

// ready reports whether a command is possible for the current selection.
func (m *Model) ready(c command) bool {
	return m.has(c) && (c.can == nil || c.can(m))
}

// has reports whether this dashboard has the command: "sb top" has no detail pane.
func (m *Model) has(c command) bool {
	return !m.options.TableOnly || !c.panes && c.scope < scopeDetail
}
