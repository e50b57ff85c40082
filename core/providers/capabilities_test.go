package providers_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers"
	"github.com/seed-0724f904/sb/core/providers/fake"
)

// TestCapabilities compares with testdata/capabilities.json, the names that users and assistants see. UPDATE=1 writes
// the file.
func TestCapabilities(t *testing.T) {
	got := map[string][]core.Capability{}
	add := func(name string, factory core.Factory) {
		p, err := factory.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		got[name] = slices.Sorted(slices.Values(p.Capabilities().Has))
	}
	dir := t.TempDir()
	for name, runtime := range map[string]string{"docker": "", "docker in gVisor": "runsc", "docker in Kata": "kata"} {
		for _, factory := range providers.Builtin(providers.Options{
			StateDir: dir, CacheDir: dir, Docker: providers.Docker{Runtime: runtime},
		}) {
			if factory.Name == "docker" {
				add(name, factory)
			} else if runtime == "" {
				add(factory.Name, factory)
			}
		}
	}
	add("fake", fake.New(fake.Options{}).Factory())
	add("fake keeper", fake.NewKeeper(fake.Options{}, fake.KeeperOptions{}).Factory())

	const file = "testdata/capabilities.json"
	if os.Getenv("UPDATE") != "" {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]core.Capability{}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the capabilities changed (-want +got):\n%s", diff)
	}
}
