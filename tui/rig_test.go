package tui

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/theme"
)

func TestMain(m *testing.M) {
	if os.Getenv(panickingChild) != "" {
		os.Exit(runPanickingChild())
	}
	time.Local = time.UTC
	// The test model's goroutine, which waits for an interrupt.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/charmbracelet/x/exp/teatest/v2.NewTestModel.func2"))
}

// newService returns a service over providers.
func newService(t testing.TB, providers ...*fake.Provider) *service.Service {
	t.Helper()
	var factories []core.Factory
	for _, p := range providers {
		factories = append(factories, p.Factory())
		t.Cleanup(p.Shutdown)
	}
	svc := service.New(service.Options{Actor: "ui", Factories: factories, StateDir: t.TempDir()})
	t.Cleanup(func() {
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	return svc
}

func launch(t testing.TB, svc *service.Service, spec core.Spec) core.Sandbox {
	t.Helper()
	box, err := svc.Sandboxes.Launch(t.Context(), spec, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// rig drives a Model without a terminal: it runs the commands and delivers their messages, one at a time.
type rig struct {
	t    testing.TB
	m    *Model
	msgs chan tea.Msg
	quit bool
	// clipboard is the last copied text.
	clipboard string
	ran       sync.WaitGroup
	// limit is how long until waits.
	limit time.Duration
	stop  context.CancelFunc
}

func newRig(t testing.TB, options Options) *rig {
	t.Helper()
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Theme == "" {
		options.Theme = theme.Dark
	}
	ctx, stop := context.WithCancel(t.Context())
	fx := newEffects(ctx, options)
	m, err := newModel(fx, options, loadMemory(options.MemoryFile))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, m: m, msgs: make(chan tea.Msg), stop: stop, limit: time.Minute}
	t.Cleanup(r.close)
	r.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	r.run(m.Init())
	return r
}

// close ends all running commands. A test in a synctest bubble calls it before the bubble ends.
func (r *rig) close() {
	r.stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := r.m.fx.close(); err != nil {
			r.t.Error(err)
		}
		r.ran.Wait()
	}()
	for {
		select {
		case <-r.msgs:
		case <-over:
			return
		}
	}
}

func (r *rig) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	r.ran.Go(func() {
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range msg {
				r.run(c)
			}
		default:
			r.msgs <- msg
		}
	})
}

// send delivers a message to the model and runs the resulting command.
func (r *rig) send(msg tea.Msg) {
	r.t.Helper()
	switch msg.(type) {
	case tea.QuitMsg:
		r.quit = true
		return
	case nil:
		return
	}
	if fmt.Sprintf("%T", msg) == "tea.setClipboardMsg" {
		r.clipboard = fmt.Sprint(msg)
		return
	}
	_, cmd := r.m.Update(msg)
	r.check()
	r.run(cmd)
}

// check fails unless the frame has the size of the screen.
func (r *rig) check() {
	r.t.Helper()
	checkFrame(r.t, r.m)
}

func checkFrame(t testing.TB, m *Model) {
	t.Helper()
	lines := m.screen()
	if len(lines) != max(0, m.h) && m.w > 0 {
		t.Fatalf("%d lines on a screen of %d x %d", len(lines), m.w, m.h)
	}
	for i, l := range lines {
		if w := ansi.StringWidthWc(l); w != m.w {
			t.Fatalf("line %d is %d cells wide on a screen of %d x %d: %q", i, w, m.w, m.h, l)
		}
	}
}

// until handles messages until holds returns true.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	limit := time.NewTimer(r.limit)
	defer limit.Stop()
	for !holds() {
		select {
		case msg := <-r.msgs:
			r.send(msg)
		case <-limit.C:
			r.t.Fatalf("never: %s\n%s", what, r.text())
		}
	}
}

// shows waits for text on the screen.
func (r *rig) shows(text string) {
	r.t.Helper()
	r.until("the screen shows "+text, func() bool { return strings.Contains(r.text(), text) })
}

// hides waits until text is not on the screen.
func (r *rig) hides(text string) {
	r.t.Helper()
	r.until("the screen does not show "+text, func() bool { return !strings.Contains(r.text(), text) })
}

// text returns the screen without colors.
func (r *rig) text() string { return ansi.Strip(strings.Join(r.m.screen(), "\n")) }

// press presses keys by their names: "enter", "ctrl+p", "x".
func (r *rig) press(keys ...string) {
	r.t.Helper()
	for _, k := range keys {
		r.send(keyPress(k))
	}
}

// types types text.
func (r *rig) types(text string) {
	r.t.Helper()
	for _, c := range text {
		r.send(tea.KeyPressMsg{Code: c, Text: string(c)})
	}
}

func keyPress(name string) tea.KeyPressMsg {
	var key tea.KeyPressMsg
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		key.Mod, name = tea.ModCtrl, rest
	}
	if rest, ok := strings.CutPrefix(name, "shift+"); ok {
		key.Mod, name = tea.ModShift, rest
	}
	special := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab,
		"backspace": tea.KeyBackspace, "delete": tea.KeyDelete,
		"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
		"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd,
	}
	switch code, ok := special[name]; {
	case ok:
		key.Code = code
	case name == "space":
		key.Code, key.Text = ' ', " "
	default:
		key.Code = []rune(name)[0]
		if key.Mod == 0 {
			key.Text = name
		}
	}
	return key
}

// rowNames returns the names of the sandboxes in the table, in order.
func (r *rig) rowNames() []string {
	var names []string
	for _, row := range r.m.table.rows {
		if row.entry != nil {
			names = append(names, row.entry.box.Name)
		}
	}
	return names
}

func (r *rig) hasRow(name string) func() bool {
	return func() bool { return slices.Contains(r.rowNames(), name) }
}

// selects reports whether the cursor is on the sandbox with this name.
func (r *rig) selects(name string) func() bool {
	return func() bool { return r.hasRow(name)() && r.m.table.selected().box.Name == name }
}
