package configs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func lookup(vars map[string]string) Lookup {
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

func write4test(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLayersRise(t *testing.T) {
	path := write4test(t, "defaults:\n  memory: 1GiB\n  cpu: 2\nquotas:\n  max_sandboxes: 5\n")
	c, err := Load(path, lookup(map[string]string{"SB_DEFAULTS_CPU": "3", "SB_LOCAL_FREEZE_AFTER": "5s"}))
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Defaults; d.Memory != core.GiB || d.CPU != 3 || d.Network.Mode != core.NetworkAll ||
		c.Quotas.MaxSandboxes != 5 {
		t.Errorf("%+v", c.Config)
	}
	origins := map[string]string{}
	for _, s := range c.Settings {
		origins[s.Key] = s.Origin
	}
	for key, want := range map[string]string{
		"defaults.memory": "file " + path, "defaults.cpu": "environment SB_DEFAULTS_CPU", "defaults.disk": "default",
		"local.freeze_after": "environment SB_LOCAL_FREEZE_AFTER",
	} {
		if origins[key] != want {
			t.Errorf("%s comes from %q, want %q", key, origins[key], want)
		}
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"defaults:\n  memroy: 1GiB\n":        "defaults.memory", // the nearest key, in the hint
		"defaults:\n  memory: much\n":        "defaults.memory",
		"defaults:\n  memory: [1, 2]\n":      "single value",
		"defaults:\n  network: everywhere\n": "everywhere",
		"defaults:\n  app: 012\n":            "quotes", // YAML reads 10
		"provider: true\n":                   "quotes",
		"defaults:\n  processes: -1\n":       "whole number",
		"nonsense: true\n":                   "nonsense",
		"defaults: 3\n":                      "defaults",
		"a: b: c\n":                          "YAML",
	} {
		_, err := Load(write4test(t, text), lookup(nil))
		if !errors.Is(err, core.KindUsage) || !strings.Contains(err.Error()+core.HintOf(err), want) {
			t.Errorf("%q: %v (%s)", text, err, core.HintOf(err))
		}
	}
	_, err := Load(t.TempDir(), lookup(nil))
	if !errors.Is(err, core.KindUsage) || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Load("/dev/zero", lookup(nil)); !errors.Is(err, core.KindUsage) {
		t.Errorf("a file without an end: %v", err)
	}
	_, err = Load(filepath.Join(t.TempDir(), "none"), lookup(map[string]string{"SB_QUOTAS_MAX_CPU": "x"}))
	if !errors.Is(err, core.KindUsage) || !strings.Contains(err.Error(), "SB_QUOTAS_MAX_CPU") {
		t.Errorf("a bad variable: %v", err)
	}
}

func TestSetKeepsComments(t *testing.T) {
	path := write4test(t, "# mine\ndefaults:\n  # enough\n  memory: 1GiB # for now\n")
	for _, step := range [][2]string{{"defaults.memory", "2GiB"}, {"defaults.cpu", "1.5"}, {"local.log_limit", "1MiB"}} {
		if err := Set(path, step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# mine", "# enough", "# for now", "memory: 2GiB", "cpu: 1.5", "log_limit: 1MiB"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	for _, bad := range [][2]string{{"defaults.memory", "x"}, {"defaults.nothing", "1"}} {
		if err := Set(path, bad[0], bad[1]); !errors.Is(err, core.KindUsage) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(text) {
		t.Errorf("a refused value changed the file: %s, %v", after, err)
	}
}

func TestInit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config.yaml")
	if err := Init(path, false); err != nil {
		t.Fatal(err)
	}
	if err := Init(path, false); !errors.Is(err, core.KindConflict) {
		t.Errorf("over a file that exists: %v", err)
	}
	c, err := Load(path, lookup(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Settings {
		if s.Origin != "default" {
			t.Errorf("the file sets %s", s.Key)
		}
	}
	if err := Set(path, "defaults.memory", "4GiB"); err != nil {
		t.Fatal(err)
	}
	if c, err = Load(path, lookup(nil)); err != nil || c.Defaults.Memory != 4*core.GiB {
		t.Errorf("%+v, %v", c.Config, err)
	}
}

func TestPaths(t *testing.T) {
	home := t.TempDir()
	vars := map[string]string{"HOME": home, "XDG_STATE_HOME": "/x/state", "XDG_CACHE_HOME": "relative"}
	p, err := FindPaths(lookup(vars))
	want := Paths{Config: home + "/.config/sb/config.yaml", State: "/x/state/sb", Cache: home + "/.cache/sb"}
	if err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err = FindPaths(lookup(nil)); err != nil || !filepath.IsAbs(p.State) {
		t.Errorf("without HOME: %+v, %v", p, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("defaults:\n  memory: 1GiB\n")
	f.Add("defaults: [1]\nprovider: {a: b}")
	f.Add("&a [*a]")
	f.Add("? ! : - |")
	f.Fuzz(func(t *testing.T, text string) {
		path := write4test(t, text)
		if _, err := Load(path, lookup(nil)); err != nil && !errors.Is(err, core.KindUsage) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// Mirrors and registries without TLS are checked when they are set.
func TestRegistries(t *testing.T) {
	const text = "images:\n  mirrors: docker.io=b.example/hub,a.example:5000\n  insecure: a.example:5000\n"
	loaded, err := Load(write4test(t, text), lookup(nil))
	if err != nil {
		t.Fatal(err)
	}
	got := loaded.Images.Registries
	if strings.Join(got.Mirrors["docker.io"], " ") != "b.example/hub a.example:5000" || !got.Trusts("a.example:5000") {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{
		"images: {mirrors: 'docker.io=http://a.example'}", "images: {insecure: 'http://a.example'}",
	} {
		if _, err := Load(write4test(t, text), lookup(nil)); core.KindOf(err) != core.KindUsage || core.HintOf(err) == "" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
