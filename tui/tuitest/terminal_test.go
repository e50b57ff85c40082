package tuitest

import (
	"context"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTerminal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	script := `printf '\033[1;31mred\033[0m 日本\n'; stty size; read line; echo "got $line"; stty size; exit 4`
	term, err := Start(exec.CommandContext(ctx, "sh", "-c", script), 40, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := term.Close(); err != nil {
			t.Error(err)
		}
	}()
	wait := func(pattern string) {
		t.Helper()
		if err := term.Wait(ctx, regexp.MustCompile(pattern), false); err != nil {
			t.Fatal(err)
		}
	}
	wait(`(?m)^red 日本$`)
	wait(`(?m)^10 40$`)
	if svg := term.SVG(); !strings.Contains(svg, `font-weight="bold"`) || !strings.Contains(svg, ">red</text>") {
		t.Error(svg)
	}
	if err := term.Resize(60, 20); err != nil {
		t.Fatal(err)
	}
	if err := term.Type("hello"); err != nil {
		t.Fatal(err)
	}
	if err := term.Press("enter"); err != nil {
		t.Fatal(err)
	}
	wait(`got hello`)
	wait(`(?m)^20 60$`)
	if code, err := term.End(ctx); code != 4 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	if err := term.Press("no such key"); err == nil {
		t.Error("an unknown key is not an error")
	}
}

// A program that queries the terminal and never reads the answers does not block readers of the screen.
func TestProgramThatReadsNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := `stty raw -echo; i=0; while [ $i -lt 20000 ]; do printf '\033[c'; i=$((i+1)); done; ` +
		`echo asked; exec sleep 600`
	term, err := Start(exec.CommandContext(ctx, "sh", "-c", script), 40, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := term.Wait(ctx, regexp.MustCompile("asked"), false); err != nil {
		t.Error(err)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
}

// Close ends all processes of the session, even one in another process group that ignores signals.
func TestCloseEndsAllProcesses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := `set -m; sh -c 'trap "" HUP TERM INT; echo started; while :; do sleep 1; done' & wait`
	term, err := Start(exec.CommandContext(ctx, "sh", "-c", script), 40, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := term.Wait(ctx, regexp.MustCompile("started"), false); err != nil {
		t.Error(err)
	}
	if alive := sessionProcesses(term.PID()); runtime.GOOS == "linux" && len(alive) < 2 {
		t.Errorf("the session has the processes %v", alive)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	if alive := sessionProcesses(term.PID()); len(alive) > 0 {
		t.Errorf("processes %v are still running", alive)
	}
}
