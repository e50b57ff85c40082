package tui

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/feed"
	"github.com/seed-0724f904/sb/tui/theme"
)

func TestLaunchTailAndTerminate(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	r := newRig(t, Options{Service: svc})
	r.shows("no sandboxes; L launches one")

	r.press("L")
	r.shows("✓ runs on fake")
	r.types("web")
	r.press("down", "down", "down")
	r.types("echo first line; sleep 100")
	r.press("enter")
	r.until("web is there and selected", r.selects("web"))
	r.shows("first line")

	r.press("e")
	r.types("echo from exec")
	r.press("enter")
	r.shows("from exec")
	r.press("2")
	r.shows("echo from exec")

	r.press("x")
	r.shows("Terminate web?")
	r.press("enter") // the harmless choice
	r.until("the dialog is closed", func() bool { return len(r.m.dialogs) == 0 })
	if _, err := svc.Sandboxes.Resolve(t.Context(), "web"); err != nil {
		t.Fatal("Enter in the dialog terminated the sandbox:", err)
	}
	r.press("x", "y")
	r.until("web is gone", func() bool { return len(r.m.table.rows) == 0 })
	r.shows("web is terminated")
	r.press("q")
	r.until("it quits", func() bool { return r.quit })
}

func TestChangesOfOthersAppear(t *testing.T) {
	provider := fake.New(fake.Options{})
	svc := newService(t, provider)
	r := newRig(t, Options{Service: svc})
	r.shows("no sandboxes")
	other := service.New(service.Options{Actor: "cli", Factories: []core.Factory{provider.Factory()}})
	defer other.Close()
	box := launch(t, other, core.Spec{Name: "dev"})
	r.shows("● running")
	if err := other.Sandboxes.Pause(t.Context(), box.ID); err != nil {
		t.Fatal(err)
	}
	r.shows("‖ paused")
	r.press("p")
	r.shows("● running")
	if err := other.Sandboxes.Terminate(t.Context(), box.ID); err != nil {
		t.Fatal(err)
	}
	r.until("it is gone", func() bool { return len(r.m.table.rows) == 0 })
}

func TestFilterSortGroupAndMarks(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}), fake.New(fake.Options{Name: "other", IDPrefix: "oth-"}))
	for i, spec := range []core.Spec{
		{Name: "alpha", App: "one"},
		{Name: "beta", App: "two"},
		{Name: "gamma", App: "one", Provider: "other"},
		{Name: "delta", Provider: "other"},
	} {
		spec.Labels = map[string]string{"number": fmt.Sprint(i)}
		launch(t, svc, spec)
	}
	r := newRig(t, Options{Service: svc})
	r.until("all are there", func() bool { return len(r.m.table.rows) == 4 })
	same := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, r.rowNames()); diff != "" {
			t.Error(diff)
		}
	}
	same("alpha", "beta", "delta", "gamma")
	r.press("r")
	same("gamma", "delta", "beta", "alpha")
	r.press("r", "/")
	r.types("gmma") // fuzzy; long enough to be in no id, which are random
	same("gamma")
	r.press("esc", "/")
	r.types("other num=2") // two terms: a provider and a label
	same("gamma")
	r.press("esc", "/")
	for _, row := range r.m.table.rows {
		if row.entry.box.Name == "beta" {
			r.types(row.entry.box.ID[4:])
			break
		}
	}
	same("beta") // a piece of an id
	r.press("enter", "esc")
	same("alpha", "beta", "delta", "gamma")
	r.press("b")
	r.shows("▾ one (2 sandboxes)")
	same("delta", "alpha", "gamma", "beta")
	r.press("b")
	r.shows("▾ other (2 sandboxes)")
	r.press("b", "g", "space", "space")
	if n := len(r.m.table.chosen()); n != 2 {
		t.Errorf("%d sandboxes are chosen, want 2", n)
	}
	r.press("x")
	r.shows("Terminate 2 sandboxes?")
	r.press("y")
	r.until("two are left", func() bool { return len(r.m.table.rows) == 2 })
	same("delta", "gamma")
	r.press("*", "x", "y")
	r.until("none is left", func() bool { return len(r.m.table.rows) == 0 })
}

// The cursor stays on its sandbox while others appear and disappear.
func TestCursorStaysOnItsSandbox(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "m"})
	r := newRig(t, Options{Service: svc})
	r.until("m is there", r.hasRow("m"))
	for _, name := range []string{"a", "z", "b"} {
		launch(t, svc, core.Spec{Name: name})
		r.until(name+" is there", r.hasRow(name))
		if got := r.m.table.selected().box.Name; got != "m" {
			t.Fatalf("the cursor is on %s", got)
		}
	}
}

func TestExecsAndKill(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	box := launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	process, err := svc.Execs.Start(t.Context(), "dev", core.ExecSpec{Command: []string{"sleep", "1000"}, Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	id := process.ID()
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	r.press("2")
	r.shows("● running")
	r.shows("sleep 1000")
	if strings.Contains(r.text(), "0B") {
		t.Error("a running command shows an output size of 0")
	}
	r.press("K")
	r.shows("Signal for " + id)
	r.types("KILL")
	r.press("enter")
	r.shows("✗ signal 9")
	if _, err := svc.Execs.Find(t.Context(), box.ID, id); err != nil {
		t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	box := launch(t, svc, core.Spec{Name: "dev"})
	write := func(path, text string) {
		t.Helper()
		options := core.WriteOptions{Parents: true}
		if err := svc.Files.WriteFile(t.Context(), box.ID, path, strings.NewReader(text), options); err != nil {
			t.Fatal(err)
		}
	}
	write("/aa/notes.txt", "the text\x1b]0;evil\x07 of it\n")
	write("/aa/picture.gif", "GIF89a\x02\x00\x03\x00\x00\x00\x00;")
	if err := svc.Files.Mkdir(t.Context(), box.ID, "/empty", false); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	r.press("3")
	r.shows("▸ aa/")
	r.press("g", "enter")
	r.shows("notes.txt")
	r.press("down", "enter")
	r.shows("the text of it")
	r.press("down", "enter")
	r.shows("gif image, 2 × 3")

	dir := t.TempDir()
	r.press("U")
	r.press("backspace")
	r.types(dir)
	r.press("enter")
	r.until("it was pulled", func() bool { _, err := os.Stat(filepath.Join(dir, "picture.gif")); return err == nil })
	local := filepath.Join(dir, "pushed.bin")
	if err := os.WriteFile(local, []byte("pushed"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.press("P")
	r.types(local)
	r.press("enter")
	r.shows("pushed.bin")

	r.press("D")
	r.shows("This cannot be undone")
	r.press("y")
	r.hides("picture.gif")
	if _, err := svc.Files.Stat(t.Context(), box.ID, "/aa/picture.gif"); !errors.Is(err, core.KindNotFound) {
		t.Error("the file is still there:", err)
	}

	for info, _ := r.m.detail.files.selected(); info.Path != "/empty"; info, _ = r.m.detail.files.selected() {
		r.press("down")
	}
	r.press("enter")
	r.shows("    empty")
	r.press("down", "P") // the note "empty" stands for its directory
	r.shows("dev:/empty")
	r.press("esc")
	for _, to := range []string{"/empty/", "/empty/named.bin"} { // a directory with a slash, and a new name
		r.press("P")
		r.types(local + " " + to)
		r.press("enter")
		r.until("it is in the tree", func() bool {
			return strings.Contains(r.text(), "    "+map[bool]string{true: "pushed.bin", false: "named.bin"}[to == "/empty/"])
		})
	}
}

// A provider that hangs blocks neither the keyboard nor other providers. Until it answers again, its sandboxes show
// their age.
func TestHangingProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := fake.New(fake.Options{Name: "slow", IDPrefix: "slo-"})
		quick := fake.New(fake.Options{Name: "quick", IDPrefix: "qui-"})
		svc := newService(t, slow, quick)
		// No random id contains a 0, so that the filter matches names only.
		launch(t, svc, core.Spec{Name: "old-0", Provider: "slow"})
		r := newRig(t, Options{Service: svc})
		defer r.close()
		r.limit = 5 * time.Minute // of the bubble's fake clock
		r.until("old is there", r.hasRow("old-0"))

		for _, op := range []fake.Op{fake.OpList, fake.OpCheck, fake.OpGet, fake.OpStats, fake.OpFind} {
			slow.Inject(op, fake.Fault{Delay: time.Minute})
		}
		r.shows("~") // the age
		r.shows("✗ slow")
		r.press("v")
		r.shows("no answer for")
		r.press("esc")
		launch(t, svc, core.Spec{Name: "new", Provider: "quick"})
		begin := time.Now()
		r.until("new is there", r.hasRow("new"))
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the other provider's sandbox appeared after %s", took)
		}
		r.press("/")
		r.types("old-0")
		if diff := cmp.Diff([]string{"old-0"}, r.rowNames()); diff != "" {
			t.Error(diff)
		}
		r.press("esc")

		for _, op := range []fake.Op{fake.OpList, fake.OpCheck, fake.OpGet, fake.OpStats, fake.OpFind} {
			slow.Inject(op, fake.Fault{})
		}
		r.shows("● slow")
		r.hides("~")
	})
}

// The sandboxes of a provider that is down stay on the screen.
func TestProviderDiesAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := fake.New(fake.Options{})
		svc := newService(t, provider)
		launch(t, svc, core.Spec{Name: "dev"})
		r := newRig(t, Options{Service: svc})
		defer r.close()
		r.limit = 5 * time.Minute // of the bubble's fake clock
		r.until("dev is there", r.hasRow("dev"))
		down := core.Errorf(core.KindUnavailable, "fake", "", "the engine is down").WithHint("start the engine")
		provider.Inject(fake.OpList, fake.Fault{Err: down})
		provider.Inject(fake.OpCheck, fake.Fault{Err: down})
		r.shows("start the engine")
		if !r.hasRow("dev")() {
			t.Error("its sandbox disappeared")
		}
		provider.Inject(fake.OpList, fake.Fault{})
		provider.Inject(fake.OpCheck, fake.Fault{})
		r.shows("fake is available again")
		r.hides("start the engine")
	})
}

func TestPollingBacksOff(t *testing.T) {
	inv := newInventory([]string{"p"})
	now := time.Unix(0, 0)
	var waits []time.Duration
	last := now
	for range 12 {
		now = inv.sources[0].next
		if now.Before(last) {
			now = last
		}
		if len(inv.due(now)) != 1 || len(inv.due(now)) != 0 {
			t.Fatal("the provider is not due exactly once")
		}
		inv.Take("p", service.Listing{}, now)
		waits = append(waits, inv.sources[0].next.Sub(now))
		last = now
	}
	if waits[0] >= waits[3] || waits[11] != pollMost {
		t.Errorf("the intervals do not grow to %s: %v", pollMost, waits)
	}
	inv.hurry("p", now)
	if len(inv.due(now)) != 1 {
		t.Error("a change does not make the provider due")
	}
	inv.hurry("p", now) // during a list
	inv.Take("p", service.Listing{}, now)
	if len(inv.due(now)) != 1 {
		t.Error("a change during a list is not followed by another list")
	}
	inv.Take("p", service.Listing{}, now)
	if len(inv.due(now)) != 0 {
		t.Error("one change causes more than one further list")
	}
}

func TestTwoHundredComeAndGo(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	r := newRig(t, Options{Service: svc})
	r.shows("no sandboxes")
	over := make(chan error, 1)
	go func() {
		var failed []error
		for i := range 200 {
			_, err := svc.Sandboxes.Launch(t.Context(), core.Spec{Name: fmt.Sprintf("box-%03d", i)}, service.LaunchOptions{})
			failed = append(failed, err)
		}
		over <- errors.Join(failed...)
	}()
	r.until("200 are there", func() bool { return len(r.m.table.rows) == 200 })
	if err := providertest.Receive(t, over); err != nil {
		t.Fatal(err)
	}
	r.press("*", "x", "y")
	r.until("none is there", func() bool { return len(r.m.table.rows) == 0 })
	listing, err := svc.Sandboxes.List(t.Context(), core.ListFilter{All: true})
	if err != nil || len(listing.Sandboxes) != 0 {
		t.Errorf("%d sandboxes are left, %v", len(listing.Sandboxes), err)
	}
}

// A transfer ends with the dashboard, so quitting asks first.
func TestQuitAsksWhileTransfersRun(t *testing.T) {
	provider := fake.New(fake.Options{})
	svc := newService(t, provider)
	launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	provider.Inject(fake.OpWrite, fake.Fault{Delay: time.Hour})
	r.press("P")
	r.types(file)
	r.press("enter")
	r.shows("⟳ push")
	r.press("q")
	r.shows("1 job is still running")
	r.press("n", "q", "w")
	if r.quit || len(r.m.jobs) != 1 {
		t.Fatal("the dashboard or the transfer ended")
	}
	r.press("X")
	r.shows("Cancel")
	r.press("enter")
	r.until("it quits once the transfer is over", func() bool { return r.quit })
}

func TestSearchCopyAndSave(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	script := `i=0; while [ $i -lt 60 ]; do echo "line $i"; i=$((i+1)); done; ` +
		`printf '\033[31mneedle\033[0m\033]0;t\007\n' >&2`
	launch(t, svc, core.Spec{Name: "job", Command: []string{"sh", "-c", script}})
	r := newRig(t, Options{Service: svc})
	r.shows("needle")
	r.press("1", "g")
	r.shows("line 0")
	r.press("/")
	r.types("needle")
	r.press("enter")
	r.shows("needle")
	r.press("C")
	r.until("it is copied", func() bool { return strings.HasSuffix(r.clipboard, "line 59\nneedle\n") })
	path := filepath.Join(t.TempDir(), "out.log")
	r.press("W", "ctrl+u")
	r.types(path)
	r.press("enter")
	r.shows("saved to")
	if text, err := os.ReadFile(path); err != nil || string(text) != r.clipboard {
		t.Errorf("%q, %v", text, err)
	}
}

func TestYank(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	box := launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	for _, test := range []struct {
		keys []string
		want string
	}{
		{[]string{"c"}, box.ID},
		{[]string{"y"}, "sb inspect dev"},
		{[]string{"1", "y"}, "sb logs --follow dev"},
		{[]string{"2", "y"}, "sb ps dev"},
		{[]string{"5", "y"}, "sb stats dev"},
		{[]string{"7", "y"}, "sb history dev"},
		{[]string{"e", "i", "'", "ctrl+y", "esc"}, `sb exec dev -c 'i'\'''`},
		{[]string{":", "s", "h", "e", "l", "ctrl+y"}, "sb shell dev"},
	} {
		r.m.options.Shell = func(context.Context, string, []string) error { return nil }
		r.clipboard = ""
		r.press(test.keys...)
		r.until("copied: "+test.want, func() bool { return r.clipboard == test.want })
	}
}

func TestTimeLeft(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	r.press("t")
	r.types("2x")
	r.shows("not a duration")
	r.press("backspace")
	r.types("h")
	r.press("enter")
	r.shows("1h59m")
}

func TestMouse(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	for i := range 40 {
		launch(t, svc, core.Spec{Name: fmt.Sprintf("box-%02d", i)})
	}
	r := newRig(t, Options{Service: svc})
	r.until("all are there", func() bool { return len(r.m.table.rows) == 40 })
	click := func(x, y int) { r.send(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft}) }
	click(20, 5)
	if got := r.m.table.selected().box.Name; got != "box-03" {
		t.Errorf("the click selected %s", got)
	}
	click(15, 1)
	if !r.m.table.reverse {
		t.Error("a click on the sort column does not reverse the order")
	}
	before := r.m.table.offset
	r.send(tea.MouseWheelMsg{X: 5, Y: 5, Button: tea.MouseWheelDown})
	if r.m.table.offset != before+3 {
		t.Error("the wheel does not scroll")
	}
	height := r.m.layout.table.h
	click(50, r.m.layout.splitter.y)
	r.send(tea.MouseMotionMsg{X: 50, Y: 22, Button: tea.MouseLeft})
	r.send(tea.MouseReleaseMsg{X: 50, Y: 22, Button: tea.MouseLeft})
	if r.m.layout.table.h <= height {
		t.Error("the splitter cannot be dragged")
	}
	click(r.m.layout.detail.x+10, r.m.layout.detail.y)
	if r.m.detail.tab != tabExecs {
		t.Errorf("tab %d", r.m.detail.tab)
	}
	r.press("x")
	box := r.m.dialogs[0].view(r.m.styles, r.m.w, r.m.h)
	left, top := place(box, r.m.w, r.m.h)
	q := r.m.dialogs[0].(*question)
	name := r.m.table.selected().box.Name
	click(left+q.buttons[1].x+1, top+q.buttons[1].y)
	r.until(name+" is terminated", func() bool { return !r.hasRow(name)() })
}

func TestMemory(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "dev"})
	file := filepath.Join(t.TempDir(), "sub", "ui.json")
	r := newRig(t, Options{Service: svc, MemoryFile: file})
	r.until("dev is there", r.hasRow("dev"))
	r.press(">", "r", "b", "|", "+", "6", "tab", "/")
	r.types("dev")
	r.press("enter")
	want := r.m.memory()
	r.until("it is saved", func() bool { return loadMemory(file) == want })
	again := newRig(t, Options{Service: svc, MemoryFile: file})
	if diff := cmp.Diff(want, again.m.memory()); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(file, []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := loadMemory(file); got != (Memory{}) {
		t.Errorf("%+v", got)
	}
}

func TestKeysFromConfiguration(t *testing.T) {
	keys, err := ParseKeys("quit=ctrl+q launch= terminate=ctrl+d,delete")
	if err != nil {
		t.Fatal(err)
	}
	svc := newService(t, fake.New(fake.Options{}))
	r := newRig(t, Options{Service: svc, Keys: keys})
	r.press("L", "q")
	if len(r.m.dialogs) != 0 || r.quit {
		t.Error("the old keys still work")
	}
	r.press("ctrl+q")
	r.until("it quits", func() bool { return r.quit })
	for text, hint := range map[string]string{
		"lanch=x": `"launch"`, "nonsense": "for example", "qqqqqqqqq=x": "docs/dashboard.md",
	} {
		if _, err := ParseKeys(text); !errors.Is(err, core.KindUsage) || !strings.Contains(core.HintOf(err), hint) {
			t.Errorf("%s: %v, %s", text, err, core.HintOf(err))
		}
	}
}

// A key assigned to a command is removed from the commands that it would shadow.
func TestConfiguredKeysReplaceDefaults(t *testing.T) {
	keys, err := ParseKeys("refresh=x,/ file-edit=e")
	if err != nil {
		t.Fatal(err)
	}
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc, Keys: keys})
	r.until("dev is there", r.hasRow("dev"))
	r.press("3")
	r.m.detail.files.begin() // without a file, "delete" has no effect
	for _, focus := range []pane{paneTable, paneDetail} {
		r.m.focus = focus
		onDelete := map[pane]string{paneTable: "terminate", paneDetail: ""}[focus]
		for key, want := range map[string]string{"x": "refresh", "/": "refresh", "delete": onDelete, "q": "quit"} {
			c, ok := r.m.commandFor(key)
			if got := map[bool]string{true: c.id}[ok]; got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	}
	r.m.focus = paneTable
	if c, _ := r.m.commandFor("e"); c.id != "exec" {
		t.Errorf("e is %q outside of Files", c.id)
	}
	if _, err := ParseKeys("launch=x refresh=x"); !errors.Is(err, core.KindUsage) {
		t.Error("one key for two commands:", err)
	}
	if _, err := ParseKeys("detail=o file-open=o"); err != nil {
		t.Error("one key in two scopes:", err)
	}
}

// No key has two commands in the same scope.
func TestKeysAreUnambiguous(t *testing.T) {
	seen := map[string]string{}
	ids := map[string]bool{}
	for _, c := range allCommands() {
		if ids[c.id] {
			t.Errorf("two commands have the id %s", c.id)
		}
		ids[c.id] = true
		for _, k := range c.keys {
			at := fmt.Sprint(c.scope, k)
			if seen[at] != "" {
				t.Errorf("key %s belongs to %s and %s", k, seen[at], c.id)
			}
			seen[at] = c.id
		}
	}
}

// The theme "auto" follows the terminal's background. NO_COLOR overrides every theme.
func TestThemeFollowsTheBackground(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	r := newRig(t, Options{Service: svc, Theme: theme.Auto})
	for _, test := range []struct {
		background color.Color
		want       string
	}{{color.White, theme.Light}, {color.Black, theme.Dark}} {
		r.send(tea.BackgroundColorMsg{Color: test.background})
		if r.m.styles.Theme != test.want {
			t.Errorf("%v: %s", test.background, r.m.styles.Theme)
		}
	}
	r.press("T")
	r.types("contrast")
	r.press("enter")
	if r.m.styles.Theme != theme.Contrast {
		t.Error(r.m.styles.Theme)
	}
	plain := newRig(t, Options{Service: svc, Theme: theme.Light, NoColor: true})
	for _, l := range plain.m.screen() {
		if strings.Contains(l, "38;") || strings.Contains(l, "48;") {
			t.Fatalf("a color despite NO_COLOR: %q", l)
		}
	}
}

// --attach opens one sandbox, even if the saved filter or "hide dead" would hide it. Both settings stay saved.
func TestAttach(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "a"})
	box := launch(t, svc, core.Spec{Name: "wanted", Command: []string{"sh", "-c", "echo its output"}})
	if _, err := svc.Sandboxes.Wait(t.Context(), box.ID); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ui.json")
	if err := (Memory{Filter: "nothing", Tab: "Spec", HideDead: true}).save(file); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Service: svc, MemoryFile: file, Attach: box.ID})
	r.until("wanted is selected", func() bool { e := r.m.table.selected(); return e != nil && e.box.Name == "wanted" })
	r.press("1")
	r.shows("its output")
	if left := r.m.memory(); !r.m.zoomed || left.Filter != "nothing" || !left.HideDead {
		t.Errorf("zoomed %v, %+v", r.m.zoomed, left)
	}
	if err := Run(t.Context(), Options{Service: svc, Attach: "absent"}); !errors.Is(err, core.KindNotFound) {
		t.Errorf("a sandbox that does not exist: %v", err)
	}
}

// Only the key of the destructive choice confirms a question.
func TestDialogDefaultsAreHarmless(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	for _, key := range []string{"enter", "esc", "q", "ctrl+c", "n", "space", "x"} {
		r.press("x")
		a := r.m.dialogs[0].update(keyPress(key))
		if a.request != nil {
			t.Errorf("%s answers with %T", key, a.request)
		}
		r.m.dialogs = nil
	}
}

// Late output of one log does not appear in another.
func TestLateOutputIsDropped(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "one", Command: []string{"sh", "-c", "echo of one"}})
	launch(t, svc, core.Spec{Name: "two", Command: []string{"sh", "-c", "echo of two"}})
	r := newRig(t, Options{Service: svc})
	r.shows("of one")
	late := logMsg{gen: r.m.detail.output.gen, batch: []feed.LogBatch{{Lines: []feed.LogLine{{Text: "late words"}}}}}
	r.press("down")
	r.shows("of two")
	r.send(late)
	if text := r.text(); strings.Contains(text, "late words") || strings.Contains(text, "of one") {
		t.Error(text)
	}
}

// snapping is a provider with snapshots.
type snapping struct {
	*fake.Provider

	names []string
}

func (p *snapping) Snapshot(_ context.Context, id string, opts core.SnapshotOptions) (core.Snapshot, error) {
	p.names = append(p.names, opts.Name)
	return core.Snapshot{ID: "snap-of-" + id, Provider: p.Name(), Sandbox: id}, nil
}

// Snapshots are offered only where the provider supports them. The launch form starts a sandbox from one.
func TestSnapshot(t *testing.T) {
	plain := newRig(t, Options{Service: newService(t, fake.New(fake.Options{}))})
	launch(t, plain.m.options.Service, core.Spec{Name: "dev"})
	plain.until("dev is there", plain.hasRow("dev"))
	plain.press("I")
	if len(plain.m.dialogs) != 0 {
		t.Error("a snapshot is offered without the capability")
	}

	provider := &snapping{Provider: fake.New(fake.Options{Also: []core.Capability{core.CapSnapshots}})}
	t.Cleanup(provider.Shutdown)
	factory := core.Factory{Name: "fake", IDPrefix: "fak-", Open: func() (core.Provider, error) { return provider, nil }}
	svc := service.New(service.Options{Factories: []core.Factory{factory}})
	t.Cleanup(func() { _ = svc.Close() })
	box := launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	r.press("I")
	r.shows("Snapshot of dev")
	r.types("before")
	r.press("enter")
	r.shows("snap-of-" + box.ID)
	if diff := cmp.Diff([]string{"before"}, provider.names); diff != "" {
		t.Error(diff)
	}
	r.press("L", "down", "down", "down", "down")
	r.types("snap-of-" + box.ID)
	r.press("ctrl+y")
	r.until("the command is copied", func() bool { return r.clipboard == "sb launch --snapshot snap-of-"+box.ID })
}

// A port opens with the desktop's own opener.
func TestOpenPort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this test needs xdg-open, the opener of Linux")
	}
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	script := "#!/bin/sh\nprintf %s \"$1\" >" + opened + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	keeper := fake.NewKeeper(fake.Options{}, fake.KeeperOptions{})
	t.Cleanup(keeper.Shutdown)
	svc := service.New(service.Options{Factories: []core.Factory{keeper.Factory()}})
	t.Cleanup(func() { _ = svc.Close() })
	box := launch(t, svc, core.Spec{Name: "web", Ports: []core.Port{{Sandbox: 8000}}})
	tunnels, err := svc.Ports.Tunnels(t.Context(), box.ID)
	if err != nil || len(tunnels) != 1 {
		t.Fatalf("%+v, %v", tunnels, err)
	}
	r := newRig(t, Options{Service: svc})
	r.until("web is there", r.hasRow("web"))
	r.press("o")
	url := tunnelURL(tunnels[0])
	r.shows(url + " opened")
	if got, err := os.ReadFile(opened); err != nil || string(got) != url {
		t.Errorf("%q, %v", got, err)
	}
	r.until("its address is copied", func() bool { return r.clipboard == url })
}

// An action applies to the visible marked sandboxes, never to one that the filter hides.
func TestActionsIgnoreHiddenMarks(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	for _, name := range []string{"alpha", "beta", "gamma"} {
		launch(t, svc, core.Spec{Name: name, Persist: true})
	}
	state := func(name string) core.State {
		t.Helper()
		box, err := svc.Sandboxes.Resolve(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return box.State
	}
	r := newRig(t, Options{Service: svc})
	r.until("all are there", func() bool { return len(r.m.table.rows) == 3 })
	r.press("*", "/")
	r.types("gamma")
	r.press("enter")
	r.shows("3 marked, 2 hidden")
	for _, action := range []struct {
		key  string
		then core.State
	}{{"p", core.StatePaused}, {"p", core.StateRunning}, {"S", core.StateStopped}, {"S", core.StateRunning}} {
		r.press(action.key)
		r.until("gamma is "+string(action.then), func() bool {
			return len(r.m.jobs) == 0 && r.m.table.selected() != nil && r.m.table.selected().box.State == action.then
		})
		for _, hidden := range []string{"alpha", "beta"} {
			if now := state(hidden); now != core.StateRunning {
				t.Fatalf("after %s the hidden sandbox %s is %s", action.key, hidden, now)
			}
		}
	}
	r.press("t")
	r.shows("Timeout of gamma")
	r.press("esc", "x")
	r.shows("Terminate gamma?")
	r.press("y")
	r.until("gamma is gone", func() bool { return len(r.m.table.rows) == 0 })
	r.shows("2 marked, 2 hidden") // the hidden ones keep their marks
	r.press("/")
	r.press("ctrl+u")
	r.press("esc")
	r.until("the others are there", func() bool { return len(r.m.table.rows) == 2 })
}
