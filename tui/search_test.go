package tui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
)

// Each tab can be searched. Esc ends the search before it leaves the tab.
func TestSearchInEachTab(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	labels := map[string]string{}
	for i := range 60 {
		labels[fmt.Sprintf("label-%02d", i)] = "of many"
	}
	command := []string{"sh", "-c", "echo one; echo needle; sleep 1000"}
	box := launch(t, svc, core.Spec{Name: "dev", Labels: labels, Command: command})
	for _, name := range []string{"/aa/hay.txt", "/aa/needle.txt", "/zz/needle"} {
		options := core.WriteOptions{Parents: true}
		if err := svc.Files.WriteFile(t.Context(), box.ID, name, strings.NewReader("text"), options); err != nil {
			t.Fatal(err)
		}
	}
	for _, word := range []string{"needle", "hay", "hay"} {
		process, err := svc.Execs.Start(t.Context(), box.ID, core.ExecSpec{Command: []string{"echo", word}, Detach: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	find := func(text string) { // "/" starts with an empty query
		r.press("/")
		r.types(text)
		r.press("enter")
	}

	r.press("2")
	r.until("the journal is there", func() bool { return len(r.m.detail.execs.execs) == 4 })
	find("hay")
	find("needle")
	first, _ := r.m.detail.execs.selected()
	r.press("n")
	second, _ := r.m.detail.execs.selected()
	if first.Command[1] != "needle" || second.ID != entryExec {
		t.Errorf("found %q and %q", first.Command, second.Command)
	}
	r.press("/", "enter") // an empty query repeats the last search
	if next, _ := r.m.detail.execs.selected(); next.ID != first.ID {
		t.Errorf("the next match is %q", next.Command)
	}
	r.press("n", "N")
	if again, _ := r.m.detail.execs.selected(); again.ID != first.ID {
		t.Errorf("the previous match is %q", again.Command)
	}
	r.press("esc")
	if r.m.focus != paneDetail || r.m.detail.find.query != "" {
		t.Error("esc does not end the search first")
	}

	r.press("3")
	r.shows("▸ aa/")
	r.press("g", "enter")
	r.shows("needle.txt")
	find("NEEDLE")
	if info, _ := r.m.detail.files.selected(); info.Path != "/aa/needle.txt" {
		t.Errorf("the cursor is on %s", info.Path)
	}
	r.press("n") // the other match is in a closed directory
	if info, _ := r.m.detail.files.selected(); info.Path != "/aa/needle.txt" {
		t.Errorf("the next match is %s", info.Path)
	}
	find("nowhere")
	r.shows("not found in open directories: nowhere")

	r.press("6")
	if strings.Contains(r.text(), "/nowhere") {
		t.Error("another tab has the search")
	}
	r.press("g")
	r.hides("label-59")
	find("label-59")
	r.shows("label-59")
	if above := r.m.detail.scroll.above; above == 0 {
		t.Error("it does not scroll to the match")
	}

	r.press("7")
	r.shows("OPERATION")
	find("echo needle")
	if r.m.detail.find.current < 0 {
		t.Error("the history is not searched")
	}
	r.press("1")
	r.until("the output is there", func() bool { return len(r.m.detail.output.lines) == 2 })
	find("needle")
	if r.m.detail.output.current != 1 {
		t.Errorf("line %d of the output", r.m.detail.output.current)
	}
}

// With the preview in full, the search looks at the file.
func TestSearchInAShownFile(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	box := launch(t, svc, core.Spec{Name: "dev"})
	text := strings.Repeat("hay\n", 100) + "the needle\n" + strings.Repeat("hay\n", 100)
	if err := svc.Files.WriteFile(
		t.Context(), box.ID, "/aa.txt", strings.NewReader(text), core.WriteOptions{},
	); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Service: svc})
	r.m.split, r.m.ratio = splitSide, 60 // too narrow for the tree beside it
	r.until("dev is there", r.hasRow("dev"))
	r.press("3")
	r.shows("aa.txt")
	r.press("g", "enter")
	r.shows("hay")
	r.press("/")
	r.types("needle")
	r.press("enter")
	r.shows("the needle")
}
