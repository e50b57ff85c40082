package commands

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/watch"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// Without a terminal that can draw, the dashboard does not start, and a hint is printed.
func TestUINeedsATerminal(t *testing.T) {
	app, streams, _ := stubApp(t)
	for name, run := range map[string]func() error{
		"ui":  func() error { return watch.RunUI(t.Context(), &watch.UIOptions{App: app}, nil) },
		"top": func() error { return watch.RunTop(t.Context(), &watch.TopOptions{App: app}, nil) },
	} {
		if err := run(); !errors.Is(err, core.KindUsage) || !strings.Contains(core.HintOf(err), "sb top --once") {
			t.Errorf("%s: %v", name, err)
		}
	}
	streams.SetTTY(80)
	app.LookupEnv = func(name string) (string, bool) { return "dumb", name == "TERM" }
	if _, err := watch.Dashboard(app, ""); !errors.Is(err, core.KindUsage) ||
		!strings.Contains(core.HintOf(err), "sb top --once") {
		t.Errorf("TERM=dumb: %v", err)
	}
}

// Where stdout is no terminal, "sb top" prints one table. Filters are for that table only.
func TestTopFlags(t *testing.T) {
	app, streams := clitest.New(t, nil)
	reached := errors.New("the service was asked for")
	app.Service = func() (*service.Service, error) { return nil, reached }
	run := func(args ...string) error {
		cmd := watch.NewTop(app)
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		return cmd.ExecuteContext(t.Context())
	}
	if err := run("--app", "web"); !errors.Is(err, reached) {
		t.Errorf("without a terminal: %v", err)
	}
	streams.SetTTY(80)
	if err := run("--app", "web"); !errors.Is(err, core.KindUsage) {
		t.Errorf("a filter in the live table: %v", err)
	}
	if err := run("--json", "--app", "web"); !errors.Is(err, reached) {
		t.Errorf("--json: %v", err)
	}
}

func TestTopOnce(t *testing.T) {
	app, streams, _ := stubApp(t, "one", "two")
	if err := watch.TopOnce(t.Context(), &watch.TopOptions{App: app, Once: true}); err != nil {
		t.Fatal(err)
	}
	if out := streams.Out.String(); !strings.HasPrefix(out, "NAME") || strings.Count(out, "\n") != 3 ||
		!strings.Contains(out, "two") {
		t.Error(out)
	}
	streams.Out.Reset()
	if err := watch.TopOnce(t.Context(), &watch.TopOptions{App: app, Once: true, JSON: true}); err != nil {
		t.Fatal(err)
	}
	var rows []struct{ Sandbox core.Sandbox }
	if err := json.Unmarshal(streams.Out.Bytes(), &rows); err != nil || len(rows) != 2 || rows[0].Sandbox.Name != "one" {
		t.Errorf("%v: %s", err, streams.Out)
	}
}

func TestTemplates(t *testing.T) {
	dir := t.TempDir()
	if templates, err := cli.ReadTemplates(filepath.Join(dir, "absent"), nil); err != nil || len(templates) != 0 {
		t.Errorf("%v, %v", templates, err)
	}
	for name, text := range map[string]string{
		"small.yaml": "memory: 64MiB\nsecrets: [{name: A}, {name: B}]\n", "broken.yaml": "memry: 1\n",
		"notes.txt": "no template",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	templates, err := cli.ReadTemplates(dir, func(key string) (string, bool) { return "value", key == "A" })
	if len(templates) != 1 || templates[0].Name != "small" || templates[0].Spec.Memory != 64*core.MiB ||
		templates[0].Spec.Secrets[0].Value.Reveal() != "value" || !templates[0].Spec.Secrets[1].Value.Empty() {
		t.Errorf("%+v", templates)
	}
	if err == nil || !strings.Contains(err.Error(), "broken.yaml") {
		t.Errorf("the broken one: %v", err)
	}
}

func TestEditor(t *testing.T) {
	app, _ := clitest.New(t, nil)
	for want, env := range map[string]map[string]string{
		"vi": {}, "nano": {"EDITOR": "nano"}, "code|--wait": {"EDITOR": "nano", "VISUAL": "code --wait"},
		"ed": {"VISUAL": " ", "EDITOR": "ed"},
	} {
		app.LookupEnv = func(key string) (string, bool) { v, ok := env[key]; return v, ok }
		if got := strings.Join(watch.Editor(app), "|"); got != want {
			t.Errorf("%v: %s, want %s", env, got, want)
		}
	}
}
