package tui

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/exp/golden"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/format"
)

// The golden file has every command line that the dashboard copies. A test of the commands parses these lines.
func TestCommandLines(t *testing.T) {
	m := still(t, Options{}, 120, 40)
	caps := m.inv.source("local").caps
	caps.Has = append(caps.Has,
		core.CapFork, core.CapCheckpoint, core.CapSnapshots, core.CapVolumeStore, core.CapSecretStore, core.CapImageStore,
		core.CapSnapshotStore, core.CapEnvironmentStore,
		core.CapNetworkUpdate, core.CapNetAll, core.CapNetNone, core.CapNetAllow)
	m.inv.source("local").caps = caps
	showing(m, tabOutput)
	lines := map[string]bool{}
	// Of the palette.
	for _, c := range m.commands {
		if c.cli != nil && m.ready(c) {
			lines[c.cli(m)] = true
		}
	}
	// Of each view.
	for tab := range tabNames() {
		showing(m, tab)
		lines[m.shownLine()] = true
	}
	m.focus = paneTable
	lines[m.shownLine()] = true
	// Of the dialogs, with and without typed text.
	copied := func() {
		t.Helper()
		a := m.dialogs[len(m.dialogs)-1].update(keyPress("ctrl+y"))
		request, ok := a.request.(copyRequest)
		if !ok {
			t.Fatalf("nothing is copied: %T", a.request)
		}
		lines[request.text] = true
	}
	dialog := func(tab int, keys ...string) {
		t.Helper()
		showing(m, tab)
		for _, k := range keys {
			m.Update(keyPress(k))
		}
		copied()
		m.dialogs = nil
	}
	asking := func(keys ...string) { t.Helper(); dialog(tabOutput, keys...) }
	asking("e", "l", "s", "'")
	asking("A")
	asking("A", "ctrl+u", "a", "l", "l")
	asking("F")
	asking("F", "x")
	asking("M")
	asking("M", "down")
	asking("H")
	asking("H", "x")
	asking("I")
	asking("I", "x")
	asking("t", "2", "h")
	asking("P", "a", "space", "/", "b")
	asking("U", "/", "a")
	asking("x")
	asking("W")
	asking("L", "x")
	asking("T", "down")
	asking("v")
	dialog(tabFiles, "g", "D")
	dialog(tabFiles, "g", "U")
	dialog(tabFiles, "end", "D")
	dialog(tabExecs, "end", "K")
	m.Update(keyPress("V"))
	stores := m.dialogs[0].(*storeDialog)
	for range stores.stores {
		thing := storedItem{name: "a b", provider: "local"}
		m.Update(storeMsg{store: stores.store().noun, items: service.Inventory[storedItem]{Items: []storedItem{thing}}})
		copied()
		lines[stores.update(keyPress("y")).request.(copyRequest).text] = true
		if stores.store().create {
			m.Update(keyPress("n"))
			m.Update(keyPress("x"))
			copied()
			m.dialogs = m.dialogs[:1]
		}
		m.Update(keyPress("right"))
	}
	var sorted []string
	for l := range lines {
		sorted = append(sorted, l)
	}
	slices.Sort(sorted)
	golden.RequireEqual(t, strings.Join(sorted, "\n")+"\n")
}

// Each action has a key and a command line to copy.
func TestEveryActionHasAKeyAndALine(t *testing.T) {
	m := still(t, Options{Shell: noShell}, 120, 40)
	has := m.inv.source("local").caps
	has.Has = append(has.Has, core.CapFork, core.CapCheckpoint, core.CapSnapshots, core.CapNetworkUpdate, core.CapNetAllow)
	m.inv.source("local").caps = has
	m.openHelp()
	help := strings.Join(m.dialogs[0].(*pager).lines(m.styles, 200), "\n")
	m.dialogs = nil
	for _, id := range []string{
		"launch", "exec", "shell", "logs", "push", "pull", "pause", "stop", "snapshot", "fork", "checkpoint", "move",
		"timeout", "policy", "open", "terminate",
	} {
		showing(m, tabOutput)
		i := slices.IndexFunc(m.commands, func(c command) bool { return c.id == id })
		c := m.commands[i]
		if id == "stop" {
			m.table.selected().box.Spec.Persist = true
		}
		if len(m.keys[id]) == 0 || !strings.Contains(help, c.title) {
			t.Errorf("%s has no key, or is not in the help", id)
		}
		m.openPalette()
		items := m.dialogs[0].(*picker).items
		inPalette := slices.ContainsFunc(items, func(it item) bool { return it.request == commandRequest{id} })
		m.dialogs = nil
		if !inPalette {
			t.Errorf("%s is not in the palette", id)
		}
		if c.cli != nil && strings.HasPrefix(c.cli(m), "sb ") {
			continue
		}
		c.run(m)
		if len(m.dialogs) != 1 {
			t.Errorf("%s has no command line", id)
			continue
		}
		if r, ok := m.dialogs[0].update(keyPress("ctrl+y")).request.(copyRequest); !ok || !strings.HasPrefix(r.text, "sb ") {
			t.Errorf("%s: the dialog has no command line", id)
		}
		m.dialogs = nil
	}
}

func noShell(context.Context, string, []string) error { return nil }

// The golden file has specs with their launch lines. A test of the commands parses each line and compares the spec.
func TestLaunchLine(t *testing.T) {
	spec := core.Spec{
		Provider: "modal", App: "shop", Name: "web", Image: "python:3.12", Pull: core.PullAlways,
		Python: "3.12", Pip: []string{"flask", "numpy"}, Apt: []string{"git"},
		CPU: 1.5, Memory: 512 * core.MiB, Disk: 10 * core.GiB, Processes: 100, OpenFiles: 1000,
		GPU:     core.GPU{Type: "H100", Count: 2},
		Timeout: core.Duration(2 * time.Hour), IdleTimeout: core.Duration(90 * time.Second), MaxCost: 2.5,
		Persist: true, Workdir: "/srv", User: "app",
		Env: map[string]string{"A": "it's", "B": ""}, Secrets: []core.Secret{{Name: "KEY", Ref: "kept"}},
		Volumes: []core.Volume{{Source: "data", Target: "/data", ReadOnly: true}},
		ShmSize: core.GiB, ReadOnly: true, Tmpfs: []core.Tmpfs{{Target: "/t", Size: 64 * core.MiB}, {Target: "/s"}},
		DNS:     []string{"192.0.2.53", "2001:db8::53"},
		Ports:   []core.Port{{Host: 80, Sandbox: 8000, Protocol: core.PortHTTPS}, {Sandbox: 22}},
		Network: core.Network{Mode: core.NetworkAllow, Allow: []string{"pypi.org", "10.0.0.0/8"}},
		Inbound: []string{"192.0.2.0/24"}, Require: true,
		Labels: map[string]string{"team": "ml"}, Command: []string{"sh", "-c", "sleep 1; echo 'x'"},
		Ready: &core.Probe{Exec: []string{"sh", "-c", "test -e /ready"}, Interval: core.Duration(2 * time.Second)},
		Modal: modalspec.Section{
			Regions: []string{"us-east", "eu"}, Cloud: "aws", CPULimit: 4, MemoryLimit: core.GiB, OIDC: true,
			Experimental: map[string]string{"fast": "true"}, Buckets: []modalspec.Bucket{{Name: "b", Target: "/b"}},
		}.JSON(),
	}
	checkpoint := core.Spec{Checkpoint: "warm", Ready: &core.Probe{TCP: 8000}}
	var lines []map[string]any
	everyField(t, reflect.ValueOf(spec), "Dockerfile", "Template", "Snapshot", "Checkpoint")
	for _, s := range []core.Spec{spec, checkpoint} {
		lines = append(lines, map[string]any{"line": format.LaunchLine(s), "spec": s})
	}
	text, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.RequireEqual(t, string(text)+"\n")
}

// everyField fails if the test's spec lacks a field, so that the launch line covers new fields.
func everyField(t *testing.T, spec reflect.Value, others ...string) {
	t.Helper()
	for i := range spec.NumField() {
		if name := spec.Type().Field(i).Name; spec.Field(i).IsZero() && !slices.Contains(others, name) {
			t.Errorf("the spec has no %s", name)
		}
	}
}
