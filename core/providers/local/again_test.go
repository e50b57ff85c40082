//go:build linux

package local

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// runAgain runs the calling test in another process, with an environment variable and below a command. It fails unless
// the test passes there.
func runAgain(t *testing.T, variable string, below ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	argv := slices.Concat(below, []string{os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"})
	again := exec.CommandContext(ctx, argv[0], argv[1:]...)
	again.Env = append(os.Environ(), variable)
	out, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: "+t.Name()) {
		t.Errorf("%v: %s", err, out)
	}
}
