//go:build linux

package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

// programsDir holds sb-runtime and sb-guest: prebuilt ones where SB_TEST_BIN names a directory, as for
// users that have no Go, else built now.
func programsDir(tb testing.TB) string {
	tb.Helper()
	if dir := os.Getenv("SB_TEST_BIN"); dir != "" {
		return dir
	}
	dir := tb.TempDir()
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", dir, "github.com/seed-0724f904/sb/cmd/sb-runtime", "github.com/seed-0724f904/sb/cmd/sb-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %s", err, out)
	}
	return dir
}

// opener returns providers over one state directory.
func opener(tb testing.TB, change func(*Options)) providertest.Opener {
	tb.Helper()
	dir := tb.TempDir()
	opts := Options{
		StateDir: filepath.Join(dir, "state"), RuntimeDir: filepath.Join(dir, "run"), CacheDir: filepath.Join(dir, "cache"),
		Runtime: filepath.Join(programsDir(tb), "sb-runtime"), SaveInterval: time.Minute, FreezeAfter: 200 * time.Millisecond, LogLimit: core.MiB,
	}
	if change != nil {
		change(&opts)
	}
	return func(tb testing.TB) core.Provider {
		tb.Helper()
		p, err := New(opts)
		if err != nil {
			tb.Fatal(err)
		}
		return p
	}
}

func TestContract(t *testing.T) {
	t.Setenv("SB_SUITE_SECRET", "the host's")
	providertest.Run(t, opener(t, nil))
}

func BenchmarkContract(b *testing.B) { providertest.Bench(b, opener(b, nil)) }
