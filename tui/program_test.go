package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/exp/teatest/v2"
	"github.com/charmbracelet/x/vt"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/feed"
	"github.com/seed-0724f904/sb/tui/theme"
)

// program is a complete running dashboard with an emulated terminal.
type program struct {
	*teatest.TestModel

	t      *testing.T
	fx     *effects
	screen *vt.Emulator
}

func newProgram(t *testing.T, options Options) *program {
	t.Helper()
	options.Now, options.Theme = time.Now, theme.Dark
	fx := newEffects(t.Context(), options)
	m, err := newModel(fx, options, loadMemory(options.MemoryFile))
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, fx: fx, screen: vt.NewEmulator(100, 30)}
	go func() { _, _ = io.Copy(io.Discard, p.screen) }() // its answers to queries
	t.Cleanup(func() { _ = p.screen.InputPipe().(io.Closer).Close() })
	p.TestModel = teatest.NewTestModel(t, m, teatest.WithInitialTermSize(100, 30))
	return p
}

// shows waits for text on the screen.
func (p *program) shows(text string) {
	p.t.Helper()
	p.until("the screen shows "+text, func() bool { return strings.Contains(p.screen.String(), text) })
}

// row returns one line of the screen.
func (p *program) row(n int) string {
	return strings.Split(p.screen.String(), "\n")[n]
}

// until draws until holds returns true.
func (p *program) until(what string, holds func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		drawn, err := io.ReadAll(p.Output())
		if err != nil {
			p.t.Fatal(err)
		}
		// The output is not a terminal, and Bubble Tea assumes that LF becomes CR LF.
		if _, err := p.screen.Write(bytes.ReplaceAll(drawn, []byte("\n"), []byte("\r\n"))); err != nil {
			p.t.Fatal(err)
		}
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("never: %s\n%s", what, p.screen.String())
		}
	}
}

// final waits for the end and returns the model.
func (p *program) final() *Model {
	p.t.Helper()
	final := p.FinalModel(p.t, teatest.WithFinalTimeout(5*time.Minute)).(*Model)
	if err := p.fx.close(); err != nil {
		p.t.Error(err)
	}
	return final
}

func TestProgramLaunchesAndTerminates(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	tm := newProgram(t, Options{Service: svc})
	tm.shows("no sandboxes")
	tm.Type("L")
	tm.shows("runs on fake")
	tm.Type("dev")
	tm.Send(keyPress("enter"))
	tm.shows("● running")
	tm.Type("e")
	tm.Type("echo from the program")
	tm.Send(keyPress("enter"))
	tm.shows("from the program")
	tm.Type("x")
	tm.shows("Terminate dev?")
	tm.Type("y")
	tm.shows("dev is terminated")
	tm.Type("q")
	m := tm.final()
	if len(m.table.rows) != 0 || len(m.inv.entries) != 0 {
		t.Errorf("%d rows are left", len(m.table.rows))
	}
	if _, err := svc.Sandboxes.Resolve(t.Context(), "dev"); !errors.Is(err, core.KindNotFound) {
		t.Error("dev is still there:", err)
	}
}

// The dashboard keeps working when a sandbox disappears during its shell.
func TestProgramOutlivesItsShell(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "one"})
	launch(t, svc, core.Spec{Name: "two"})
	var argv []string
	shell := func(ctx context.Context, sandbox string, command []string) error {
		argv = command
		if err := svc.Sandboxes.Terminate(ctx, sandbox); err != nil {
			t.Error(err)
		}
		for i := range 300 { // the dashboard reads no events during the loop
			if _, err := svc.Sandboxes.Launch(
				ctx, core.Spec{Name: fmt.Sprintf("box-%d", i)}, service.LaunchOptions{},
			); err != nil {
				t.Error(err)
			}
		}
		return core.Errorf(core.KindUnavailable, "exec", sandbox, "the sandbox is gone")
	}
	tm := newProgram(t, Options{Service: svc, Shell: shell})
	tm.shows("two")
	tm.Type("s")
	tm.shows("the sandbox is gone")
	tm.shows("301 total")
	tm.Type("G")
	tm.Type("q")
	m := tm.final()
	if len(argv) == 0 || len(m.inv.entries) != 301 {
		t.Errorf("%d sandboxes after the shell %q", len(m.inv.entries), argv)
	}
	if !strings.Contains(fmt.Sprint(m.notices.log), "the sandbox is gone") {
		t.Error("no notice says why the shell ended")
	}
}

func TestProgramEditsFiles(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	box := launch(t, svc, core.Spec{Name: "dev"})
	content := strings.NewReader("before")
	if err := svc.Files.WriteFile(t.Context(), box.ID, "/aa.txt", content, core.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	edit := func(_ context.Context, path string) error { return os.WriteFile(path, []byte("after"), 0o600) }
	tm := newProgram(t, Options{Service: svc, Edit: edit})
	tm.shows("dev")
	tm.Type("3")
	tm.shows("aa.txt")
	tm.Type("gE")
	tm.shows("/aa.txt written")
	tm.Type("q")
	tm.final()
	edited, err := svc.Files.ReadFile(t.Context(), box.ID, "/aa.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(edited)
	if err != nil || string(text) != "after" {
		t.Errorf("%q, %v", text, err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The dashboard survives many quick resizes.
func TestProgramResizeStorm(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	for i := range 50 {
		launch(t, svc, core.Spec{Name: fmt.Sprintf("box-%02d", i)})
	}
	tm := newProgram(t, Options{Service: svc})
	tm.shows("box-05")
	for i := range 500 {
		tm.Send(tea.WindowSizeMsg{Width: 1 + i*7%250, Height: 1 + i*3%80})
		if i%100 == 0 {
			tm.Type("j")
		}
	}
	tm.Send(tea.WindowSizeMsg{Width: 100, Height: 30})
	tm.Type("q")
	m := tm.final()
	if m.w != 100 || m.h != 30 || m.table.at != 5 {
		t.Errorf("%d x %d, the cursor at %d", m.w, m.h, m.table.at)
	}
	checkFrame(t, m)
}

// While a guest floods its output, keys still work and memory stays bounded.
func TestProgramLogFlood(t *testing.T) {
	provider := fake.New(fake.Options{LogLimit: 64 * core.MiB})
	svc := newService(t, provider)
	command := []string{"sh", "-c", "yes some output of a program that never ends"}
	launch(t, svc, core.Spec{Name: "flood", Command: command})
	tm := newProgram(t, Options{Service: svc})
	tm.shows("never ends")
	tm.Type("?")
	tm.shows("Mouse: click")
	tm.Send(keyPress("esc"))
	tm.Type("q")
	m := tm.final()
	if n := len(m.detail.output.lines); n > feed.MaxLogLines || m.detail.output.bytes > feed.MaxLogBytes {
		t.Errorf("%d lines, %d bytes are kept", n, m.detail.output.bytes)
	}
}

// Output of a guest reaches the terminal only as text and colors.
func TestHostileOutputIsDrawnAsText(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	hostile := `\033]0;title\007\033]52;c;ZXZpbA==\007\033[2J\033[?1049l\033[31mred` +
		`\033[10;10Hmoved\033c\033[6n\000\033P+q\033\\end\n`
	launch(t, svc, core.Spec{Name: "evil", Command: []string{"sh", "-c", "printf '" + hostile + "'"}})
	r := newRig(t, Options{Service: svc})
	r.shows("␀end")
	if !strings.Contains(r.text(), "redmoved␀end") {
		t.Error(r.text())
	}
	for i, l := range r.m.screen() {
		for rest := l; rest != ""; {
			if rest[0] != 0x1b {
				if rest[0] < ' ' || rest[0] == 0x7f {
					t.Fatalf("line %d has a control character: %q", i, l)
				}
				rest = rest[1:]
				continue
			}
			end := strings.IndexByte(rest, 'm')
			if end < 0 || !strings.HasPrefix(rest, "\x1b[") || strings.Trim(rest[2:end], "0123456789;") != "" {
				t.Fatalf("line %d has an escape sequence other than a color: %q", i, l)
			}
			rest = rest[end+1:]
		}
	}
}

func TestLaunchForm(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{
		Also: []core.Capability{core.CapGPU, core.CapCPU, core.CapPorts},
		GPUs: map[string]int{"H100": 8, "T4": 1}, GPUPrices: map[string]string{"H100": "3.95 USD/h"},
	}))
	launch(t, svc, core.Spec{
		Name: "first", Memory: 300 * core.MiB, Env: map[string]string{"A": "b"}, Labels: map[string]string{"kept": "yes"},
	})
	templates := func() ([]Template, error) {
		return []Template{{"small", core.Spec{Memory: 64 * core.MiB, Command: []string{"sleep", "100"}}}}, nil
	}
	r := newRig(t, Options{Service: svc, Templates: templates})
	r.until("first is there", r.hasRow("first"))
	r.press("L")
	r.shows("✓ runs on fake")
	form := r.m.dialogs[0].(*launchForm)
	r.until("the templates are there", func() bool { return len(form.templates) == 2 })
	field := func(id string) string {
		for _, f := range form.fields {
			if f.id == id {
				return f.input.Value()
			}
		}
		return "?"
	}
	r.press("ctrl+t")
	r.shows("like first")
	if field("memory") != "300MiB" || field("env") != "A=b" || field("name") != "" {
		t.Errorf("memory %q, env %q, name %q", field("memory"), field("env"), field("name"))
	}
	r.types("second")
	for form.fields[form.at].id != "gpu" {
		r.press("down")
	}
	r.press("right")
	r.shows("3.95 USD/h")
	r.press("ctrl+y")
	r.until("the command is copied", func() bool { return r.clipboard != "" })
	want := "sb launch --provider fake --name second --image host --memory 300MiB --gpu H100 --env A=b --label kept=yes"
	if r.clipboard != want {
		t.Errorf("copied %s, want %s", r.clipboard, want)
	}
	r.press("enter")
	r.until("second is there", r.hasRow("second"))
	box, err := svc.Sandboxes.Resolve(t.Context(), "second")
	if err != nil || box.GPU.Type != "H100" || box.Spec.Memory != 300*core.MiB || box.Labels["kept"] != "yes" {
		t.Errorf("%+v, %v", box, err)
	}

	r.press("L")
	r.shows("✓ runs on fake")
	form = r.m.dialogs[0].(*launchForm)
	for form.fields[form.at].id != "cpu" {
		r.press("down")
	}
	r.types("many")
	r.shows(`cpu: "many" is not a number`)
	r.press("enter")
	if len(r.m.dialogs) != 1 {
		t.Error("the form launched with an invalid field")
	}
}

// A panic in an effect ends the program with an error and restores the terminal. The test needs a separate process.
func TestPanicRestoresTheTerminal(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), panickingChild+"=1")
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 7 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, sequence := range []string{"\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h", "\x1b[?1002l"} {
		if !bytes.Contains(out, []byte(sequence)) {
			t.Errorf("%q is missing in the output", sequence)
		}
	}
	if bytes.LastIndex(out, []byte("\x1b[?1049l")) < bytes.LastIndex(out, []byte("\x1b[?1049h")) {
		t.Error("the alternate screen was left on")
	}
}

// The refresh key removes text that another program wrote to the terminal.
func TestProgramRedraws(t *testing.T) {
	tm := newProgram(t, Options{Service: newService(t, fake.New(fake.Options{}))})
	tm.shows("0 live, 0 total")
	if _, err := tm.screen.Write([]byte("\x1b[Hscribbled over it all")); err != nil {
		t.Fatal(err)
	}
	tm.Send(keyPress("ctrl+l"))
	tm.shows("0 live, 0 total")
	tm.Type("q")
	tm.final()
}

// Terminal modes left by a sandbox's program do not break the dashboard.
func TestProgramResetsTerminalModesAfterShell(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "dev"})
	var tm *program
	left := make(chan string, 1) // the last output of the program in the sandbox
	shell := func(context.Context, string, []string) error {
		left <- "\x1b[5;10r\x1b[?6h\x1b[4h\x1b(0"
		return nil
	}
	tm = newProgram(t, Options{Service: svc, Shell: shell})
	tm.shows("dev")
	tm.Type("s")
	if _, err := tm.screen.Write([]byte(providertest.Receive(t, left))); err != nil {
		t.Fatal(err)
	}
	tm.shows("1 live, 1 total")
	top, bottom := func() string { return tm.row(0) }, func() string { return tm.row(29) }
	tm.until("the first and the last line are where they belong", func() bool {
		return strings.Contains(top(), "1 live, 1 total") && strings.Contains(bottom(), "quit")
	})
	tm.Type("q")
	tm.final()
}
