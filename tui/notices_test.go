package tui

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
)

// A provider that never worked here causes no notice, in any order of its answers.
func TestNoNoticeForUnusedProvider(t *testing.T) {
	for _, slow := range []fake.Op{fake.OpCheck, fake.OpList} {
		synctest.Test(t, func(t *testing.T) {
			absent := fake.New(fake.Options{Name: "absent", IDPrefix: "abs-"})
			for _, op := range []fake.Op{fake.OpCheck, fake.OpList} {
				fault := fake.Fault{Err: core.Errorf(core.KindUnavailable, "absent", "", "there is no engine")}
				if op == slow {
					fault.Delay = time.Second
				}
				absent.Inject(op, fault)
			}
			r := newRig(t, Options{Service: newService(t, absent, fake.New(fake.Options{}))})
			defer r.close()
			r.limit = 5 * time.Minute // of the bubble's fake clock
			begin := time.Now()
			r.until("it was looked at often", func() bool { return time.Since(begin) > 2*time.Minute })
			for _, n := range r.m.notices.log {
				t.Errorf("slow %s: notice %q", slow, n.text)
			}
		})
	}
}

// A notice about a failed editor disappears after a while.
func TestEditorFailureNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Service: newService(t, fake.New(fake.Options{}))})
		defer r.close()
		r.send(editedMsg{edit: edit{local: "/tmp/copy"}, err: errors.New("exit status 1")})
		r.shows("your text is in /tmp/copy")
		r.hides("your text is in /tmp/copy")
	})
}

// "sb top" has no detail pane, and its help has no keys for one.
func TestHelpOfTheTableAlone(t *testing.T) {
	r := newRig(t, Options{Service: newService(t, fake.New(fake.Options{})), TableOnly: true})
	r.send(tea.WindowSizeMsg{Width: 100, Height: 120})
	r.press("?")
	r.shows("Launch a sandbox")
	for _, absent := range []string{
		"Show the output", "Show Files", "Go to the other pane", "Search in the tab", "Wrap long lines", "Send a signal",
		"Delete …",
	} {
		if strings.Contains(r.text(), absent) {
			t.Errorf("the help has %q", absent)
		}
	}
}

// The key of an unavailable action explains why.
func TestUnavailableKeysExplainWhy(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	r := newRig(t, Options{Service: svc})
	r.shows("no sandboxes")
	r.press("e")
	r.shows("Run a command: no sandbox is selected")
	launch(t, svc, core.Spec{Name: "dead", Command: []string{"false"}})
	r.shows("exited 1")
	r.press("e")
	r.shows("Run a command: not available for dead (exited 1 on fake)")
	r.press("S")
	r.shows("Stop or start a persistent sandbox: not available for dead")
	if len(r.m.dialogs) != 0 {
		t.Error("a dialog is open")
	}
}

// Hints are shown in full, on a narrow screen too.
func TestHintsAreNotCut(t *testing.T) {
	const hint = "install the engine with the tool of your system and start it, " +
		"or set ENGINE_HOST to where one is, as the last words say"
	absent := fake.New(fake.Options{Name: "absent", IDPrefix: "abs-"})
	failure := core.Errorf(core.KindUnavailable, "absent", "", "there is no engine").WithHint(hint)
	for _, op := range []fake.Op{fake.OpCheck, fake.OpList} {
		absent.Inject(op, fake.Fault{Err: failure})
	}
	r := newRig(t, Options{Service: newService(t, absent)})
	r.send(tea.WindowSizeMsg{Width: 60, Height: 30})
	r.shows("no provider is ready; v shows why")
	r.press("v", "enter")
	r.shows("✗ memory")
	words := strings.Join(strings.Fields(strings.ReplaceAll(r.text(), "│", " ")), " ")
	if !strings.Contains(words, "→ "+hint) {
		t.Error(r.text())
	}
	r.press("esc", "esc")
	r.m.warn("something happened", hint)
	r.press("m")
	words = strings.Join(strings.Fields(strings.ReplaceAll(r.text(), "│", " ")), " ")
	if !strings.Contains(words, "→ "+hint) {
		t.Error(r.text())
	}
}
