package commands

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// fullDisk is a stdout on a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// A launch whose id cannot be printed names the sandbox that runs and the command that ends it.
func TestLaunchToAFullDisk(t *testing.T) {
	for _, args := range [][]string{
		{"launch", "-n", "dev"}, {"launch", "-n", "dev", "--json"}, {"launch", "-n", "dev", "-q"},
	} {
		app, streams, provider := stubApp(t)
		app.Streams.Out = fullDisk{}
		code := execute(t.Context(), app, args)
		message := streams.Err.String()
		if code == 0 || len(provider.boxes) != 1 {
			t.Fatalf("%v: exit code %d, sandboxes %v", args, code, provider.boxes)
		}
		for _, want := range []string{
			"the sandbox stb-1 runs", "/dev/stdout", "no space left on device", "sb terminate stb-1",
		} {
			if !strings.Contains(message, want) {
				t.Errorf("%v: the error does not contain %q: %s", args, want, message)
			}
		}
	}
}

// An error of a write names stdout and the cause.
func TestOutputToAFullDisk(t *testing.T) {
	for _, args := range [][]string{
		{"ls"}, {"ls", "--json"}, {"ls", "-q"}, {"inspect", "one"}, {"terminate", "one"}, {"version"}, {"provider", "ls"},
	} {
		app, streams, _ := stubApp(t, "one")
		app.Streams.Out = fullDisk{}
		code := execute(t.Context(), app, args)
		message := streams.Err.String()
		if code == 0 || !strings.Contains(message, "/dev/stdout") || !strings.Contains(message, "no space left on device") {
			t.Errorf("%s: exit code %d: %s", slices.Concat(args), code, message)
		}
	}
}
