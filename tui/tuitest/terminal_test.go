package tuitest

import (
	"context"
	"os/exec"
	"regexp"
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
		t.Error("there is such a key")
	}
}
