package commands

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/sandboxes"
	"github.com/seed-0724f904/sb/core"
)

// Every command line that the dashboard offers to copy is one that sb takes.
func TestDashboardCommandLines(t *testing.T) {
	text, err := os.ReadFile("../tui/testdata/TestCommandLines.golden")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		args := shellWords(t, line)
		app, _ := clitest.New(t, nil)
		root := NewRoot(app)
		if args[0] == "config" || args[0] == "doctor" { // they need no service
			cmd, rest, err := root.Find(args)
			if err == nil {
				err = errors.Join(cmd.ParseFlags(rest), cmd.ValidateArgs(cmd.Flags().Args()))
			}
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			continue
		}
		root.SetArgs(args)
		err = root.ExecuteContext(t.Context())
		if refused, ok := errors.AsType[*core.Error](err); !ok || refused.Op != "config" {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// shellWords are the arguments that a shell gives sb, without the program's name.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "sh", "-c", `sb() { for word; do printf '%s\0' "$word" >&3; done; }; { `+
		strings.TrimSuffix(line, "\n")+"; } 3>words")
	shell.Dir = t.TempDir()
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	words, err := os.ReadFile(shell.Dir + "/words")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
}

// The launch line has every field of the spec.
func TestDashboardLaunchLine(t *testing.T) {
	text, err := os.ReadFile("../tui/testdata/TestLaunchLine.golden")
	if err != nil {
		t.Fatal(err)
	}
	var lines []struct {
		Line string
		Spec json.RawMessage
	}
	if err := json.Unmarshal(text, &lines); err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		app, _ := clitest.New(t, nil)
		opts, err := parse(t, app, sandboxes.NewLaunch, shellWords(t, l.Line)[1:]...)
		if err != nil {
			t.Fatalf("%s: %v", l.Line, err)
		}
		got, err := json.MarshalIndent(opts.Spec, "    ", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(l.Spec), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", l.Line, diff)
		}
	}
}
