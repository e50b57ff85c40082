package tui

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/format"
)

// Text is previewed as text, even when the read ends within a character.
func TestPreviewOfText(t *testing.T) {
	for _, text := range []string{"привет\n", "日本語", "é", "ascii", "x"} {
		var p preview
		p.info.Size = int64(len(text))
		p.describe([]byte(text))
		if got := strings.Join(p.lines, "|"); got != strings.TrimSuffix(text, "\n") {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	long := []byte(strings.Repeat("日本", 10))
	for n := range 3 {
		var p preview
		p.info.Size = 1000
		p.describe(long[:len(long)-n])
		if facts := strings.Join(p.facts, " "); strings.Contains(facts, "binary") {
			t.Errorf("text without its last %d bytes: %s", n, facts)
		}
	}
	for _, binary := range []string{"a\x00b", "\xff\xfe12345", "123\xc3", "1\x80\x80\x80\x80"} {
		var p preview
		p.info.Size = int64(len(binary))
		p.describe([]byte(binary))
		want := binary != "123\xc3" // may be text that was cut within a character
		if facts := strings.Join(p.facts, " "); strings.Contains(facts, "binary") != want {
			t.Errorf("%q is %s", binary, facts)
		}
	}
}

// filesRig is a dashboard at the Files tab of a sandbox, after a shell line has prepared its files.
func filesRig(t *testing.T, prepare string) (*rig, *service.Service, core.Sandbox) {
	t.Helper()
	svc := newService(t, fake.New(fake.Options{}))
	box := launch(t, svc, core.Spec{Name: "dev"})
	process, err := svc.Execs.Start(t.Context(), box.ID, core.ExecSpec{Command: []string{"sh", "-c", prepare}})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := process.Wait(t.Context())
	if err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	edit := func(context.Context, string) error { return nil }
	r := newRig(t, Options{Service: svc, Edit: edit})
	r.until("dev is there", r.hasRow("dev"))
	r.press("3", "g")
	return r, svc, box
}

// find moves the cursor to a file of the tree.
func (r *rig) find(path string) {
	r.t.Helper()
	for i, row := range r.m.detail.files.rows {
		if row.info.Path == path {
			r.m.detail.files.move(i - r.m.detail.files.at)
			return
		}
	}
	r.t.Fatalf("%s is not in the tree", path)
}

// A link to a directory opens like a directory.
func TestLinkToDirectory(t *testing.T) {
	r, _, _ := filesRig(t, "mkdir /aa; echo text > /aa/inside; ln -s aa /ab; ln -s aa/inside /ac; ln -s nowhere /ad")
	r.shows("ab → aa")
	r.find("/ab")
	r.press("enter")
	r.shows("▾ ab → aa")
	r.shows("inside")
	r.find("/ab/inside")
	r.press("left", "left")
	r.shows("▸ ab → aa")
	r.press("enter")
	r.shows("▾ ab → aa")
	r.find("/ac")
	r.press("enter")
	r.shows("text")
	r.find("/ad")
	r.press("enter")
	r.shows("no such file")
}

// Names with spaces can be pulled and pushed.
func TestCopyNamesWithBlanks(t *testing.T) {
	r, svc, box := filesRig(t, `echo text > "/aa b.txt"`)
	r.shows("aa b.txt")
	r.find("/aa b.txt")
	dir := t.TempDir()
	r.press("U", "backspace")
	r.types(`"` + filepath.Join(dir, "got it") + `"`)
	r.press("enter")
	r.until("it was pulled", func() bool { _, err := os.Stat(filepath.Join(dir, "got it")); return err == nil })
	r.press("P")
	r.types(`'` + filepath.Join(dir, "got it") + `' /two\ words`)
	r.press("ctrl+y")
	r.until("the command is copied", func() bool { return strings.HasSuffix(r.clipboard, "/got it' 'dev:/two words'") })
	r.press("enter")
	r.shows("two words")
	if _, err := svc.Files.Stat(t.Context(), box.ID, "/two words"); err != nil {
		t.Error(err)
	}
	r.press("P")
	r.types("a b c")
	r.shows("more than two paths")
	r.press("enter")
	if len(r.m.dialogs) != 1 {
		t.Error("the prompt accepted three paths")
	}
}

// A file that changed after it was listed can be edited. Only a change during the edit is a conflict.
func TestEditOfFileThatChangedSinceItWasListed(t *testing.T) {
	r, svc, box := filesRig(t, "echo one > /aa.txt")
	r.shows("aa.txt")
	write := func(text string) {
		t.Helper()
		content := strings.NewReader(text)
		if err := svc.Files.WriteFile(t.Context(), box.ID, "/aa.txt", content, core.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", t.TempDir())
	for _, meanwhile := range []bool{false, true} {
		write("two")
		listed, _ := r.m.detail.files.selected()
		ready, ok := r.m.fx.fetch(box, listed)().(editReadyMsg)
		if !ok {
			t.Fatal("the file was not fetched")
		}
		if err := os.WriteFile(ready.edit.local, []byte("edited"), 0o600); err != nil {
			t.Fatal(err)
		}
		if meanwhile {
			write("three")
		}
		r.send(editedMsg{edit: ready.edit})
		if meanwhile {
			r.shows("changed in the sandbox during the edit")
			r.shows("your text is in")
		} else {
			r.shows("/aa.txt written")
		}
	}
}

// The delete key, which elsewhere terminates a sandbox, deletes the file under the cursor.
func TestDeleteKeyInFiles(t *testing.T) {
	r, _, _ := filesRig(t, "echo one > /aa.txt")
	r.shows("aa.txt")
	r.find("/aa.txt")
	r.press("delete")
	if text := ansi.Strip(r.text()); !strings.Contains(text, "Delete /aa.txt?") {
		t.Error(text)
	}
}

// A launch like an existing sandbox keeps the settings that the form cannot show in one line.
func TestLaunchLikeKeepsHiddenSettings(t *testing.T) {
	spec := core.Spec{
		Command: []string{"sh", "-c", "echo one\necho two"}, Env: map[string]string{"A": "two words", "B": "two\nlines"},
		Ports: []core.Port{{Sandbox: 8000, Protocol: core.PortHTTPS}},
	}
	f := newLaunchForm(nil, newInventory(nil), &entry{box: core.Sandbox{Name: "dev", Spec: spec}})
	f.fx = newEffects(t.Context(), Options{})
	f.use(1)
	got, wrong, err := f.spec()
	if err != nil {
		t.Fatal(wrong, err)
	}
	if format.LaunchLine(got) != format.LaunchLine(spec) {
		t.Errorf("got %s, want %s", format.LaunchLine(got), format.LaunchLine(spec))
	}
	for _, field := range f.fields {
		if field.id == "env" {
			field.input.SetValue(field.input.Value() + " C='a b'")
		}
	}
	got, wrong, err = f.spec()
	if err != nil || got.Env["C"] != "a b" || got.Env["A"] != "two words" {
		t.Errorf("%q, %s: %v", got.Env, wrong, err)
	}
}

// The form offers a policy for pulls only if a provider has one.
func TestLaunchFormOfPulls(t *testing.T) {
	for _, can := range []bool{true, false} {
		fields := launchFields([]string{core.ProviderAuto}, nil, nil, map[core.Capability]bool{core.CapPull: can})
		at := slices.IndexFunc(fields, func(f *launchField) bool { return f.id == "pull" })
		if can != (at >= 0) {
			t.Fatalf("with the capability %v, the field is number %d", can, at)
		}
		if !can {
			continue
		}
		if want := []string{"", "missing", "always", "never"}; !slices.Equal(fields[at].choices, want) {
			t.Errorf("the choices are %q", fields[at].choices)
		}
		var spec core.Spec
		err := fields[at].set(&spec, "never")
		if err != nil || spec.Pull != core.PullNever || fields[at].get(spec) != "never" {
			t.Errorf("%+v, %v", spec, err)
		}
	}
}
