//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// A launch with helpers that are linked with the C library fails before it makes anything.
func TestHelpersLinkedWithTheCLibrary(t *testing.T) {
	dir := t.TempDir()
	program, err := os.ReadFile("/bin/false")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sb-runtime", "sb-guest"} {
		if err := os.WriteFile(filepath.Join(dir, name), program, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if !dynamic(filepath.Join(dir, "sb-runtime")) {
		t.Fatal("/bin/false does not ask for a dynamic linker")
	}
	p := opener(t, func(o *Options) { o.Runtime = filepath.Join(dir, "sb-runtime") })(t)
	_, err = p.Launch(
		t.Context(), core.Spec{Name: "box", Image: HostImage},
		core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil,
	)
	if !errors.Is(err, core.KindUnavailable) || core.HintOf(err) == "" {
		t.Errorf("Launch: %v", err)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("it left %v, %v", all, err)
	}
}
