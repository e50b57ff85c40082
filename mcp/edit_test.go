package mcp

import (
	"strings"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

func TestEditFile(t *testing.T) {
	b := newBench(t, setup.Options{})
	a := b.connect(t)
	sb := a.Launch(args{})
	const file = "/tmp/f.py"
	content := func() string {
		t.Helper()
		text, _ := a.Call("file_read", args{"sandbox": sb, "path": file})["content"].(string)
		return text
	}
	write := func(text string) {
		t.Helper()
		a.Call("file_write", args{"sandbox": sb, "path": file, "content": text, "executable": true})
	}
	edit := func(edits ...args) args { return args{"sandbox": sb, "path": file, "edits": edits} }
	write("one\ntwo\ntwo\nthree\n")
	diff, _ := a.Call("file_edit", edit(
		args{"old": "one\n", "new": "1\n"}, args{"old": "two", "new": "2", "all": true},
		args{"old": "2\nthree", "new": "2\n3"},
	))["diff"].(string)
	if !strings.Contains(diff, "\n-one\n") || !strings.Contains(diff, "\n+1\n") || content() != "1\n2\n2\n3\n" {
		t.Errorf("after three edits: %q, %s", content(), diff)
	}
	info, err := b.provider.Stat(t.Context(), sb, file)
	if err != nil || info.Mode.Perm() != 0o755 {
		t.Errorf("the mode is %v, %v", info.Mode, err)
	}
	if text := textOf(a.result("file_edit", edit(args{"old": "1", "new": "1"}))); !strings.Contains(text, "unchanged") {
		t.Errorf("an edit without a change: %s", text)
	}
	for why, edits := range map[string][]args{
		"is not in":      {{"old": "1", "new": "one"}, {"old": "absent", "new": ""}},
		"2 times":        {{"old": "1", "new": "one"}, {"old": "2", "new": ""}},
		"old is empty":   {{"old": "", "new": "x"}},
		"edits is empty": {},
		"becomes larger": {
			{"old": "2", "new": strings.Repeat("2", 2000), "all": true},
			{"old": "2", "new": strings.Repeat("2", 2000), "all": true},
		},
	} {
		if text := a.fails(core.KindUsage, "file_edit", edit(edits...)); !strings.Contains(text, why) {
			t.Errorf("%s: %s", why, text)
		}
		if content() != "1\n2\n2\n3\n" {
			t.Fatalf("%s: a refused edit wrote %q", why, content())
		}
	}
	absent := edit(args{"old": "a", "new": "b"})
	absent["path"] = "/tmp/absent"
	a.fails(core.KindNotFound, "file_edit", absent)
	write(strings.Repeat("x", 4<<20) + "yz")
	text := a.fails(core.KindUsage, "file_edit", edit(args{"old": "y", "new": ""}))
	if !strings.Contains(text, "larger than") {
		t.Errorf("a large file: %s", text)
	}
}

// Parallel edits of one file all take effect.
func TestConcurrentEdits(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(args{})
	letters := strings.Split("abcdefghijklmnop", "")
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/f", "content": strings.Join(letters, "\n")})
	var calls sync.WaitGroup
	for _, letter := range letters {
		calls.Go(func() {
			a.result("file_edit", args{"sandbox": sb, "path": "/tmp/f", "edits": []args{
				{"old": letter, "new": strings.ToUpper(letter)},
			}})
		})
	}
	calls.Wait()
	got := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/f"})["content"]
	if want := strings.ToUpper(strings.Join(letters, "\n")); got != want {
		t.Errorf("got %q", got)
	}
}
