package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

func TestSetChangesOneLine(t *testing.T) {
	for _, tt := range []struct{ name, before, key, value, after string }{
		{"empty", "", "defaults.memory", "1GiB", "defaults:\n  memory: 1GiB\n"},
		{"top level", "# mine\n", "provider", "local", "# mine\nprovider: local\n"},
		{
			"in place", "defaults:\n    memory: 1GiB # for now\n\n    cpu: 2\n", "defaults.memory", "2GiB",
			"defaults:\n    memory: 2GiB # for now\n\n    cpu: 2\n",
		},
		{"in quotes", "defaults:\n  memory: \"1GiB\"\n", "defaults.memory", "2GiB", "defaults:\n  memory: 2GiB\n"},
		{
			"without a value", "defaults:\n  memory:\n  cpu: 1\n", "defaults.memory", "2GiB",
			"defaults:\n  memory: 2GiB\n  cpu: 1\n",
		},
		{
			"beside others", "defaults:\n    # enough\n    cpu: 2\nquotas:\n    max_cpu: 4\n", "defaults.memory", "2GiB",
			"defaults:\n    memory: 2GiB\n    # enough\n    cpu: 2\nquotas:\n    max_cpu: 4\n",
		},
		{"no newline at the end", "defaults:\n  cpu: 2", "defaults.cpu", "3", "defaults:\n  cpu: 3\n"},
		{"in braces", "defaults: {cpu: 2, disk: 1GiB}\n", "defaults.cpu", "3", "defaults: {cpu: 3, disk: 1GiB}\n"},
		{
			"over lines", "defaults:\n  app: one\n    two\n  cpu: 1\n", "defaults.app", "three",
			"defaults:\n  app: three\n  cpu: 1\n",
		},
		{
			"text that looks like a number", "defaults:\n  cpu: 2\n", "defaults.app", "012",
			"defaults:\n  app: \"012\"\n  cpu: 2\n",
		},
		{"text that looks like null", "", "defaults.app", "null", "defaults:\n  app: \"null\"\n"},
		{
			"a commented default", "defaults:\n  # cores\n  # cpu: \"0\"\n  disk: 1GiB\n", "defaults.cpu", "3",
			"defaults:\n  # cores\n  cpu: 3\n  disk: 1GiB\n",
		},
		{
			"a commented default elsewhere", "quotas:\n  # max_cpu: \"0\"\nlocal:\n", "local.log_limit", "1MiB",
			"quotas:\n  # max_cpu: \"0\"\nlocal:\n  log_limit: 1MiB\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write4test(t, tt.before)
			if err := Set(path, tt.key, tt.value); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.after, string(after)); diff != "" {
				t.Errorf("the file (-want +got):\n%s", diff)
			}
			if got := setting(t, path, tt.key); got != tt.value {
				t.Errorf("%s is read back as %q, want %q", tt.key, got, tt.value)
			}
		})
	}
}

func setting(t *testing.T, path, key string) string {
	t.Helper()
	loaded, err := Load(path, lookup(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range loaded.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	t.Fatalf("there is no setting %s", key)
	return ""
}

// Each setting of a new file replaces the line of its default.
func TestSetInANewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := Init(path, false); err != nil {
		t.Fatal(err)
	}
	want := template()
	for _, k := range keys() {
		value := map[kind]string{
			kindText: "x", kindSize: "3MiB", kindDuration: "7s", kindWhole: "9", kindDecimal: "1.5", kindPrices: "none",
		}[k.kind]
		if k.kind == kindChoice {
			value = k.choices[1]
		}
		switch k.name {
		case "images.mirrors":
			value = "docker.io=mirror.example"
		case "images.insecure":
			value = "registry.example:5000"
		}
		if err := Set(path, k.name, value); err != nil {
			t.Fatal(err)
		}
		want = strings.Replace(want, commented(k), fmt.Sprintf("%s: %s", last(k.name), value), 1)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("the file (-want +got):\n%s", diff)
	}
}

func TestSetKeepsExactSizes(t *testing.T) {
	path := write4test(t, "")
	for _, value := range []string{"1500MiB", "1537KiB", "1234567B", "1.5GiB"} {
		if err := Set(path, "defaults.memory", value); err != nil {
			t.Fatal(err)
		}
		if got := setting(t, path, "defaults.memory"); got != value {
			t.Errorf("%s is shown as %s", value, got)
		}
	}
}

func TestSetKeepsLinkAndMode(t *testing.T) {
	path := write4test(t, "provider: auto\n")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := Set(link, "provider", "local"); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != path {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	if got := setting(t, path, "provider"); got != "local" {
		t.Errorf("provider is %q behind the link", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestSettersDoNotLoseEachOthersValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	values := map[string]string{
		"provider": "local", "defaults.cpu": "2", "defaults.memory": "3GiB", "quotas.max_cpu": "4", "local.log_limit": "5MiB",
	}
	var writers sync.WaitGroup
	for key, value := range values {
		writers.Go(func() {
			if err := Set(path, key, value); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	for key, value := range values {
		if got := setting(t, path, key); got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("other files are left: %v, %v", left, err)
	}
}

func TestAliasIsNotBroken(t *testing.T) {
	text := "defaults: &d\nquotas: *d\n"
	path := write4test(t, text)
	if err := Set(path, "quotas.max_cpu", "2"); !errors.Is(err, core.KindUsage) {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != text {
		t.Errorf("%s, %v", after, err)
	}
}

// In any valid file, a value that is set is read back, and the others stay.
func FuzzSet(f *testing.F) {
	f.Add("# a\ndefaults:\n  cpu: 1 # b\n", "x y")
	f.Add("defaults: {app: a, cpu: 2}\nprovider: >\n  a\n  b\n", "012")
	f.Add("? defaults\n: ? app\n  : |\n    a\n", "~")
	f.Add("---\n\"defaults\": \n  'app': \"a\\\n    b\" # c\n", "#")
	f.Fuzz(func(t *testing.T, text, value string) {
		path := write4test(t, text)
		before, err := Load(path, lookup(nil))
		if err != nil || strings.TrimSpace(value) == "" {
			return
		}
		changes := []struct{ name, value string }{{"defaults.app", value}, {"provider", value}, {"local.log_limit", "7MiB"}}
		for _, k := range changes {
			if err := Set(path, k.name, k.value); err != nil {
				if !errors.Is(err, core.KindUsage) {
					t.Errorf("%q: %v", text, err)
				}
				return
			}
			after, err := Load(path, lookup(nil))
			if err != nil {
				t.Fatalf("%q is no longer readable: %v", text, err)
			}
			for i, s := range after.Settings {
				want := before.Settings[i].Value
				if s.Key == k.name {
					want = k.value
				}
				if s.Value != want {
					t.Errorf("%q: after setting %s to %q, %s is %q, want %q", text, k.name, k.value, s.Key, s.Value, want)
				}
			}
			before = after
		}
	})
}
