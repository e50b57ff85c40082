// Package examples holds tasks to start from. Its test runs each one with the real program.
package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core/programtest"
)

func TestMain(m *testing.M) {
	os.Exit(programtest.With(m, "...").Run())
}

func TestExamples(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("*/run.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("there are no examples: %v", err)
	}
	for _, script := range scripts {
		t.Run(filepath.Dir(script), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(filepath.Join(filepath.Dir(script), "expected"))
			if err != nil {
				t.Fatal(err)
			}
			env := environment(t)
			t.Cleanup(func() { terminateAll(t, env) })
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "/bin/sh", script)
			cmd.Env, cmd.Stderr = env, t.Output()
			got, err := cmd.Output()
			if err != nil {
				t.Errorf("%s: %v", script, err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("output (-expected +got):\n%s", diff)
			}
		})
	}
}

// TestTutorial runs the lines of the tutorial, except the two that need a terminal.
func TestTutorial(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	script := []string{"set -eux"}
	for line := range strings.Lines(string(page)) {
		command, isCode := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !isCode || strings.HasPrefix(command, "sb shell") || command == "sb ui" {
			continue
		}
		script = append(script, command)
	}
	if len(script) < 20 {
		t.Fatalf("the tutorial has only %d lines", len(script))
	}
	env := environment(t)
	t.Cleanup(func() { terminateAll(t, env) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", strings.Join(script, "\n"))
	cmd.Env, cmd.Dir = env, t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// environment returns the environment of a user of their own, with sb in PATH.
func environment(t *testing.T) []string {
	t.Helper()
	home := t.TempDir()
	return append(os.Environ(), "HOME="+home, "TMPDIR="+home, "SB_DOCKER_HOST=none", "SB_LOCAL_SPARES=0",
		"XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_RUNTIME_DIR=",
		"PATH="+programtest.Dir()+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
}

// terminateAll fails the test for each sandbox that an example leaves, and ends that sandbox.
func terminateAll(t *testing.T, env []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{{"ls", "-q"}, {"terminate", "--all", "--yes"}} {
		cmd := exec.CommandContext(ctx, filepath.Join(programtest.Dir(), "sb"), args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil || args[0] == "ls" && len(out) > 0 {
			t.Errorf("sb %v: %v: %s", args, err, out)
		}
	}
}
