package docker

import (
	"errors"
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core/programtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(cached{programtest.With(m, "sb-guest")}) }

// cacheEnv has the directory with the cached facts of the engines. Podman starts several programs to find them.
const cacheEnv = "SB_TEST_CACHE"

// cached runs tests with a cache directory, and removes it.
type cached struct{ programtest.Tests }

// Run implements programtest.Tests.
func (c cached) Run() int {
	dir, err := os.MkdirTemp("", "sb-test-cache-")
	if err := errors.Join(err, os.Setenv(cacheEnv, dir)); err != nil {
		log.Print(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return c.Tests.Run()
}
