package docker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// testEnv lists the engines to test with: "docker=unix:///run/docker.sock podman=unix://…".
const testEnv = "SB_TEST_ENGINES"

// testEngine is one engine under test.
type testEngine struct{ name, host string }

// engines returns the engines to test with. Without any, the test is skipped, which CI does not accept.
func engines(t testing.TB) []testEngine {
	t.Helper()
	var list []testEngine
	for entry := range strings.FieldsSeq(os.Getenv(testEnv)) {
		name, host, ok := strings.Cut(entry, "=")
		if !ok {
			t.Fatalf("%s: %q is not NAME=ADDRESS", testEnv, entry)
		}
		list = append(list, testEngine{name, host})
	}
	if len(list) == 0 {
		t.Skipf("no engine to test with: set %s to NAME=ADDRESS pairs, as .ci/run does", testEnv)
	}
	return list
}

// eachEngine runs a test with every engine, side by side. It returns before the tests end.
func eachEngine(t *testing.T, test func(*testing.T, testEngine)) {
	t.Helper()
	for _, engine := range engines(t) {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			engine.load(t)
			test(t, engine)
		})
	}
}

// open returns the provider over the engine.
func (e testEngine) open(t testing.TB, change func(*Options)) *Provider {
	t.Helper()
	opts := Options{
		Host: e.host, Image: testImage, Guest: guestProgram(), LogLimit: core.MiB, CacheDir: os.Getenv(cacheEnv),
		LookupEnv: func(string) (string, bool) { return "", false },
	}
	if change != nil {
		change(&opts)
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	provider, ok := p.(*Provider)
	if !ok {
		t.Fatalf("New returned a %T", p)
	}
	t.Cleanup(func() { _ = provider.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := provider.Check(ctx); err != nil {
		t.Fatalf("%s: %v (%s)", e.name, err, core.HintOf(err))
	}
	return provider
}

// opener returns providers over the engine.
func (e testEngine) opener() providertest.Opener {
	return func(tb testing.TB) core.Provider {
		tb.Helper()
		// Both paths to a sandbox are tested: root's direct one, and the one through the engine.
		return e.open(tb, func(opts *Options) { opts.EngineOnly = e.name == "podman" })
	}
}

// guestProgram returns the path of sb-guest.
func guestProgram() string { return filepath.Join(programtest.Dir(), "sb-guest") }

func TestContract(t *testing.T) {
	t.Setenv("SB_SUITE_SECRET", "the host's")
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		providertest.Run(t, e.opener())
	})
}

func TestContractDiff(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		providertest.RunDiff(t, e.opener())
	})
}

// The image of the tests has no interpreter.
func TestCodeSessions(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		providertest.RunCode(t, e.opener())
	})
}

func BenchmarkContract(b *testing.B) {
	for _, e := range engines(b) {
		b.Run(e.name, func(b *testing.B) {
			e.load(b)
			providertest.Bench(b, e.opener())
		})
	}
}
