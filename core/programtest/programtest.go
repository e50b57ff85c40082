// Package programtest builds sb's programs for tests that start them.
package programtest

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
)

// Variable names the directory of the programs. Where it is set before the tests they are taken from there, as for
// users that have no Go.
const Variable = "SB_TEST_BIN"

// Dir is where the programs are, once Build has returned.
func Dir() string { return os.Getenv(Variable) }

// Tests are the tests of a package: a *testing.M.
type Tests interface {
	// Run runs them and returns the process's exit code.
	Run() int
}

// With is what TestMain runs in place of tests that start programs: it builds them once, as Build does, and removes them.
func With(tests Tests, programs ...string) Tests { return built{tests, programs} }

type built struct {
	tests    Tests
	programs []string
}

// Run implements Tests.
func (b built) Run() int {
	remove, err := Build(b.programs...)
	defer remove()
	if err != nil {
		log.Print(err)
		return 1
	}
	return b.tests.Run()
}

// Build sees to it that the programs are there, for this process and those that it starts. programs are names below
// cmd, or "..." for all. remove removes what was built; it is not nil. Not for several goroutines at once.
func Build(programs ...string) (remove func(), err error) {
	remove = func() {}
	if Dir() != "" {
		return remove, nil
	}
	dir, err := os.MkdirTemp("", "sb-test-bin-")
	if err != nil {
		return remove, err
	}
	remove = func() { _ = errors.Join(os.Unsetenv(Variable), os.RemoveAll(dir)) }
	args := []string{"build", "-o", dir}
	for _, name := range programs {
		args = append(args, "github.com/seed-0724f904/sb/cmd/"+name)
	}
	build := exec.CommandContext(context.Background(), "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return remove, fmt.Errorf("%w: %s", err, out)
	}
	return remove, errors.Join(os.Chmod(dir, 0o755), os.Setenv(Variable, dir)) //nolint:gosec // other users start them, too
}
