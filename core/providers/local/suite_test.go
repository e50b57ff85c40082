//go:build linux

package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(attackVariable); how != "" {
		attack(how)
	}
	if options := os.Getenv(buildVariable); options != "" {
		os.Exit(buildOnce(options))
	}
	os.Exit(programtest.With(m, "sb-runtime", "sb-guest").Run())
}

// opener returns providers over one state directory.
func opener(tb testing.TB, change func(*Options)) providertest.Opener {
	tb.Helper()
	dir := tb.TempDir()
	opts := Options{
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		Runtime: filepath.Join(programtest.Dir(), "sb-runtime"), SaveInterval: time.Minute,
		FreezeAfter: 200 * time.Millisecond, LogLimit: core.MiB,
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

func TestContractDiff(t *testing.T) { providertest.RunDiff(t, opener(t, nil)) }

func TestCodeSessions(t *testing.T) {
	programtest.Long(t)
	t.Parallel()
	providertest.RunCode(t, opener(t, nil))
}

func BenchmarkContract(b *testing.B) { providertest.Bench(b, opener(b, nil)) }
