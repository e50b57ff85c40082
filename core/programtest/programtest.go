package programtest

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Variable is the environment variable with the directory of the programs. If it is set before the tests, they build no
// programs and need no Go.
const Variable = "SB_TEST_BIN"

// Dir returns the directory of the programs, after Build.
func Dir() string { return os.Getenv(Variable) }

// Tests is a *testing.M.
type Tests interface {
	// Run runs the tests and returns the exit code of the process.
	Run() int
}

// With returns tests for TestMain that build the programs first and remove them at the end. programs is as for Build.
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

// Build builds the programs, unless Variable is set, and sets Variable. programs are names below cmd, or "..." for all.
// remove removes the built programs; it is never nil. Build is not safe for concurrent use.
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
	if slices.Equal(programs, []string{"..."}) {
		programs = []string{"sb", "sb-guest", "sb-mcp", "sb-runtime"}
	}
	for _, name := range programs {
		// go run keeps the linked program in Go's build cache, so only the first package links it. cp is the program that
		// go run starts, with the path of the built one as its first argument.
		run := exec.CommandContext( //nolint:gosec // the names are the tests' own
			context.Background(), "go", "run", "-exec", "cp", "github.com/seed-0724f904/sb/cmd/"+name, filepath.Join(dir, name),
		)
		run.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := run.CombinedOutput(); err != nil {
			return remove, fmt.Errorf("%w: %s", err, out)
		}
	}
	err = os.Chmod(dir, 0o755) //nolint:gosec // other users start them, too
	return remove, errors.Join(err, os.Setenv(Variable, dir))
}
