package tui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/exp/golden"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/feed"
	"github.com/seed-0724f904/sb/tui/theme"
)

// atNoon is the fixed clock of the golden views.
func atNoon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// still returns a dashboard with a fixed clock and no running commands. It shows only the content of the test's
// messages.
func still(t testing.TB, options Options, w, h int) *Model {
	t.Helper()
	options.Now = atNoon
	if options.Theme == "" {
		options.Theme = theme.Dark
	}
	options.Service = newService(t, fake.New(fake.Options{Name: "local", IDPrefix: "loc-"}),
		fake.New(fake.Options{Name: "docker", IDPrefix: "dok-"}), fake.New(fake.Options{Name: "modal", IDPrefix: "sb-"}))
	m, err := newModel(newEffects(t.Context(), options), options, Memory{})
	if err != nil {
		t.Fatal(err)
	}
	do := func(msgs ...tea.Msg) {
		for _, msg := range msgs {
			m.Update(msg)
		}
	}
	all := core.Capabilities{
		Has: []core.Capability{
			core.CapStats, core.CapJournal, core.CapFiles, core.CapPause, core.CapStop, core.CapRenew, core.CapTTY,
		},
		Isolation: "gVisor", Images: []string{"host"},
	}
	do(tea.WindowSizeMsg{Width: w, Height: h}, capabilitiesMsg{"local": all, "docker": all, "modal": all})
	now := atNoon()
	ok := func(name string) service.ProviderStatus {
		return service.ProviderStatus{Name: name, Usable: true, Capabilities: all}
	}
	failure := core.ProviderFailure{
		Provider: "modal", Kind: core.KindUnauthorized, Error: "no token", Hint: "run: modal token new",
	}
	do(listedMsg{"local", service.Listing{Sandboxes: pictured("local", now)}},
		listedMsg{"docker", service.Listing{Sandboxes: pictured("docker", now)}},
		listedMsg{"modal", service.Listing{Failures: []core.ProviderFailure{failure}}},
		checkedMsg{"local", ok("local")}, checkedMsg{"docker", ok("docker")},
		checkedMsg{"modal", service.ProviderStatus{Name: "modal", Error: "no token", Hint: "run: modal token new"}})
	for i := range 40 {
		at := now.Add(time.Duration(i-40) * 2 * time.Second)
		do(sampledMsg{"local", []core.Stats{{
			Sandbox: "loc-1", Time: at, Processes: 3, CPU: time.Duration(i*i) * 5 * time.Millisecond,
			Memory: core.Bytes(100+i*5) * core.MiB, MemoryLimit: 512 * core.MiB,
			Disk: core.Bytes(i) * core.MiB, DiskLimit: core.GiB,
			NetReceived: core.Bytes(i*i) * core.KiB, NetSent: core.Bytes(i) * core.KiB,
		}}})
	}
	m.notices = notices{}
	return m
}

func pictured(provider string, now time.Time) []core.Sandbox {
	three := 3
	if provider == "docker" {
		return []core.Sandbox{
			{
				ID: "dok-1", Name: "db", Provider: "docker", App: "shop", State: core.StateStopped, Image: "postgres:17",
				Created: now.Add(-50 * time.Hour), LastActive: now.Add(-40 * time.Hour), Spec: core.Spec{Persist: true},
			},
			{
				ID: "dok-2", Name: "日本語", Provider: "docker", App: "絵文字 🎉👩‍💻", State: core.StatePaused,
				Image: "ghcr.io/a-rather-long-name/of-an-image:2026-11-21", Created: now.Add(-3 * time.Hour),
			},
		}
	}
	return []core.Sandbox{
		{
			ID: "loc-1", Name: "web", Provider: "local", App: "shop", State: core.StateRunning, Image: "host",
			GPU:     core.GPU{Type: "H100", Count: 2},
			Created: now.Add(-90 * time.Minute), Started: now.Add(-90 * time.Minute),
			Expires: now.Add(30 * time.Minute), LastActive: now.Add(-2 * time.Second),
			Labels: map[string]string{"team": "ml"}, Ports: []core.PortMapping{{Sandbox: 8000, Address: "127.0.0.1:49152"}},
			Spec: core.Spec{
				Image: "host", Memory: 512 * core.MiB, Command: []string{"python3", "-m", "http.server"},
				Network: core.Network{Mode: core.NetworkAllow, Allow: []string{"pypi.org"}},
			},
			Lease: core.Lease{Owner: core.Owner{Actor: "cli", User: "ada", Host: "host", PID: 4711}},
		},
		{
			ID: "loc-2", Name: "build-7", Provider: "local", App: "ci", State: core.StateExited, Image: "host",
			Reason: core.ReasonCommand, ExitCode: &three,
			Created: now.Add(-10 * time.Minute), Ended: now.Add(-time.Minute),
		},
		{
			ID: "loc-3", Name: "scratch", Provider: "local", State: core.StateFailed, Image: "host",
			Reason: core.ReasonMemory, Message: "memory use 520MiB is over the limit of 512MiB",
			Created: now.Add(-4 * time.Hour),
		},
		{
			ID: "loc-4", Name: "idle", Provider: "local", State: core.StateRunning, Frozen: true, Image: "host",
			Created: now.Add(-26 * time.Hour), Expires: now.Add(time.Hour), LastActive: now.Add(-20 * time.Hour),
		},
	}
}

// showing opens a tab of the sandbox web and sends the data of all tabs.
func showing(m *Model, tab int) {
	now := atNoon()
	for m.table.selected().box.Name != "web" {
		m.Update(keyPress("down"))
	}
	m.Update(keyPress(string(rune('1' + tab))))
	d := &m.detail
	execs := []core.Exec{
		{
			ID: "0", Command: []string{"python3", "-m", "http.server"}, Actor: "cli",
			Started: now.Add(-90 * time.Minute), StderrBytes: 4096,
		},
		{
			ID: "1", Command: []string{"pip", "install", "flask"}, Actor: "mcp/9f3c", Started: now.Add(-time.Hour),
			Ended: now.Add(-59 * time.Minute), Exit: &core.Exit{Code: 143, Signal: 15}, StdoutBytes: 12345,
		},
		{
			ID: "2", Command: []string{"ls"}, Actor: "ui", Started: now.Add(-time.Minute),
			Ended: now.Add(-time.Minute), Exit: &core.Exit{}, StdoutBytes: 99,
		},
	}
	m.Update(execsMsg{gen: d.gen, execs: execs})
	if tab == tabOutput {
		m.Update(logMsg{gen: d.output.gen, open: false, batch: []feed.LogBatch{{Lines: []feed.LogLine{
			{At: now, Text: "Serving HTTP on 0.0.0.0 port 8000"},
			{At: now, Stderr: true, Text: "\x1b[0;32m127.0.0.1\x1b[0m \"GET / HTTP/1.1\" 200 -"},
			{At: now, Stderr: true, Text: strings.Repeat("a long line 日本 ", 12)},
			{At: now, Text: "the end"},
		}, Partial: [2]string{"> ", ""}}}})
	}
	m.Update(dirMsg{gen: d.gen, path: "/", infos: []core.FileInfo{
		{Path: "/app", Mode: 0o755 | 1<<31},
		{Path: "/lib", Mode: 0o777 | 1<<27, Link: "usr/lib"},
		{Path: "/run.sh", Size: 120, Mode: 0o755},
		{Path: "/日本.txt", Size: 1 << 20, Mode: 0o644},
	}})
	m.Update(historyMsg{gen: d.gen, records: []service.AuditRecord{
		{Time: now.Add(-90 * time.Minute), Actor: "cli", Op: "launch", Result: "ok", Duration: 127 * time.Millisecond},
		{
			Time: now.Add(-time.Hour), Actor: "mcp/9f3c", Op: "exec", Result: "timeout", Duration: 30 * time.Second,
			Args: map[string]any{"command": []any{"pip", "install", "flask"}},
		},
	}})
}

type size2 struct{ w, h int }

func sizes() []size2 { return []size2{{60, 15}, {80, 24}, {120, 40}, {200, 60}} }

// views prepare a dashboard that shows the output of the sandbox web: one view for each tab, dialog and table state.
func views() map[string]func(*Model) {
	keys := func(names ...string) func(*Model) {
		return func(m *Model) {
			for _, n := range names {
				m.Update(keyPress(n))
			}
		}
	}
	all := map[string]func(*Model){
		"table":  keys("esc"),
		"marked": keys("tab", "space"),
		"overdue": func(m *Model) {
			keys("esc")(m)
			docker := m.inv.source("docker")
			docker.listed, docker.polling, docker.polled = atNoon().Add(-42*time.Second), true, atNoon().Add(-10*time.Second)
			m.stale = true
			m.Update(nil)
		},
		"policy": func(m *Model) {
			local := m.inv.source("local")
			local.caps.Has = append(local.caps.Has, core.CapNetworkUpdate, core.CapNetNone, core.CapNetAllow)
			keys("A")(m)
		},
		"found": func(m *Model) {
			showing(m, tabSpec)
			keys("/", "h", "t", "t", "p", "enter")(m)
		},
		"group":  keys("esc", "b"),
		"filter": keys("esc", "/", "s", "h", "o", "p"),
		"fork": func(m *Model) {
			m.inv.source("local").caps.Has = append(m.inv.source("local").caps.Has, core.CapFork)
			keys("F", "x")(m)
		},
		"terminate": keys("esc", "*", "x"),
		"palette":   keys(":"),
		"help":      keys("?"),
		"exec":      keys("e", "l", "s"),
		"timeout":   keys("t", "x"),
		"theme":     keys("T"),
		"cost": func(m *Model) {
			boxes := pictured("docker", atNoon())
			boxes[0].Cost = &core.Cost{Amount: 12.5, Currency: "USD"}
			m.Update(listedMsg{"docker", service.Listing{Sandboxes: boxes}})
			keys("esc")(m)
		},
		"stores": func(m *Model) {
			for _, s := range m.inv.sources {
				s.caps.Has = append(s.caps.Has, core.CapVolumeStore, core.CapSecretStore, core.CapImageStore,
					core.CapSnapshotStore, core.CapCheckpoint)
			}
			keys("V")(m)
			m.Update(storeMsg{store: "volume", items: service.Inventory[storedItem]{Items: []storedItem{
				{name: "data", provider: "docker", size: 3 * core.GiB, created: atNoon().Add(-time.Hour)},
				{name: "日本", provider: "modal", detail: "version 2"},
			}, Failures: []core.ProviderFailure{{Provider: "local", Error: "no answer"}}}})
			keys("down")(m)
		},
		"denied": func(m *Model) {
			m.inv.source("local").caps.Has = append(m.inv.source("local").caps.Has, core.CapDenials)
			showing(m, tabNetwork)
			m.Update(networkMsg{gen: m.detail.gen, found: network{known: true, denials: []core.Denial{
				{
					Time: atNoon().Add(-3 * time.Second), Protocol: "tcp", Address: "203.0.113.7", Port: 443,
					Name: "evil.example", Why: "not on the list", Count: 12,
				},
				{Time: atNoon().Add(-time.Minute), Protocol: "dns", Name: "tracker.example", Count: 1},
			}}})
		},
		"providers":     keys("v"),
		"launch":        keys("L"),
		"launch-choice": keys("L", "down"),
		"launch-wrong": func(m *Model) {
			keys("L", "W", "e", "b")(m)
		},
		"launch-explained": func(m *Model) {
			keys("L")(m)
			form := m.dialogs[0].(*launchForm)
			m.Update(explainedMsg{seq: form.seq, placement: service.Placement{Chosen: "local"}})
		},
		"toasts": func(m *Model) {
			m.say("web is running")
			m.warn("docker: the engine is down", "start it with: systemctl start docker")
			m.fail("push", errors.New("no such file"))
		},
		"messages": func(m *Model) { m.say("web is running"); keys("m")(m) },
		"jobs": func(m *Model) {
			j := m.begin("push data to web:/data")
			j.progress = core.Progress{Step: "copying", Done: 30 << 20, Total: 100 << 20}
			m.begin("launching a sandbox").progress.Step = "pulling python:3.12"
			for _, j := range m.jobs {
				j.began = atNoon().Add(-5 * time.Second)
			}
			keys("q")(m)
		},
		"diagnosis": func(m *Model) {
			m.Update(findingsMsg{service.ProviderStatus{Name: "local", Usable: true, Findings: []core.Finding{
				{Name: "user namespaces", Status: "ok"},
				{Name: "cgroups", Status: "warning", Detail: "not delegated", Fix: "systemctl enable x"},
			}}})
		},
		"search":     func(m *Model) { keys("1", "/", "e", "n", "d", "enter")(m) },
		"times":      keys("1", "i"),
		"unwrapped":  keys("1", "w", "right"),
		"side":       keys("|"),
		"zoomed":     keys("z"),
		"kill":       keys("2", "end", "K"),
		"dead-shown": keys("esc", "d"),
	}
	for i, name := range tabNames() {
		all["tab-"+strings.ToLower(name)] = func(m *Model) { showing(m, i) }
	}
	return all
}

// pictures returns a view at every size.
func pictures(t *testing.T, prepare func(*Model)) []*Model {
	t.Helper()
	var models []*Model
	for _, size := range sizes() {
		m := still(t, Options{}, size.w, size.h)
		showing(m, tabOutput)
		prepare(m)
		checkFrame(t, m)
		models = append(models, m)
	}
	return models
}

// Every view at every size: its text, and its styles in each theme. To update: go test ./tui -run Golden -update
func TestGoldenViews(t *testing.T) {
	for name, prepare := range views() {
		t.Run(name, func(t *testing.T) {
			models := pictures(t, prepare)
			var text strings.Builder
			for _, m := range models {
				fmt.Fprintf(&text, "== %dx%d\n%s", m.w, m.h, frameText(m.screen()))
			}
			t.Run("text", func(t *testing.T) { golden.RequireEqual(t, text.String()) })
			for _, chosen := range theme.Names()[1:] { // the first is one of the others
				t.Run(chosen, func(t *testing.T) {
					var same, styles strings.Builder
					for _, m := range models {
						m.theme = chosen
						m.setTheme(true)
						fmt.Fprintf(&same, "== %dx%d\n%s", m.w, m.h, frameText(m.screen()))
						fmt.Fprintf(&styles, "== %dx%d\n%s", m.w, m.h, frameStyles(t, m.screen(), m.w, m.h))
					}
					if diff := cmp.Diff(text.String(), same.String()); diff != "" {
						t.Error("the theme changes the text:", diff)
					}
					golden.RequireEqual(t, styles.String())
				})
			}
		})
	}
}

// Every frame has exactly the size of the screen, with wide characters too.
func TestEverySizeIsDrawn(t *testing.T) {
	for name, prepare := range map[string]func(*Model){
		"output": func(m *Model) { showing(m, tabOutput) }, "files": func(m *Model) { showing(m, tabFiles) },
		"stats": func(m *Model) { showing(m, tabStats) }, "spec": func(m *Model) { showing(m, tabSpec) },
		"execs": func(m *Model) { showing(m, tabExecs) }, "launch": func(m *Model) { m.Update(keyPress("L")) },
		"palette": func(m *Model) { m.Update(keyPress(":")) }, "help": func(m *Model) { m.Update(keyPress("?")) },
		"toast and jobs": func(m *Model) {
			m.say("told 日本")
			m.begin("a job").began = time.Time{}
			m.begin("another").began = time.Time{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := still(t, Options{}, 80, 24)
			prepare(m)
			for w := 1; w <= 300; w += 1 + w/12 {
				for h := 1; h <= 100; h += 1 + h/8 {
					m.Update(tea.WindowSizeMsg{Width: w, Height: h})
					checkFrame(t, m)
				}
			}
		})
	}
}
