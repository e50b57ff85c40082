//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// A launch that the limit of open files does not allow names the limit and the command that raises it, and leaves
// nothing.
func TestLaunchWithFewOpenFiles(t *testing.T) {
	if dir := os.Getenv("SB_TEST_FEW_FILES"); dir != "" {
		p := &Provider{}
		made, err := New(Options{StateDir: dir, CacheDir: dir})
		if err == nil {
			p, _ = made.(*Provider)
			_, err = p.Launch(t.Context(), core.Spec{Name: "few", Image: HostImage}, core.Lease{}, nil)
		}
		fmt.Printf("%v: %v: %v\n", core.KindOf(err), err, core.HintOf(err))
		return
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(
		t.Context(), "sh", "-c", `ulimit -n 64; exec "$0" -test.run='^TestLaunchWithFewOpenFiles$'`, os.Args[0],
	)
	cmd.Env = append(os.Environ(), "SB_TEST_FEW_FILES="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"exhausted: ", "the limit of open files is 64", "ulimit -n 1024"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the error does not contain %q: %s", want, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// EMFILE is KindExhausted for every call that returns it.
func TestOutOfFilesIsExhausted(t *testing.T) {
	for _, errno := range []error{unix.EMFILE, unix.ENFILE} {
		err := stateError("list", &os.PathError{Op: "open", Path: "/x", Err: errno})
		if !errors.Is(err, core.KindExhausted) || core.HintOf(err) == "" ||
			!strings.Contains(err.Error(), "limit of open files") {
			t.Errorf("%v: %v, hint %q", errno, err, core.HintOf(err))
		}
	}
}

// A start fails with the sandbox's name while another process starts it.
func TestStartWhileAnotherStarts(t *testing.T) {
	made, err := New(Options{StateDir: t.TempDir(), CacheDir: t.TempDir()})
	p, ok := made.(*Provider)
	if err != nil || !ok {
		t.Fatal(err)
	}
	sb := core.Sandbox{ID: "loc-held", Name: "busy-box"}
	held, err := p.store.Create(sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	lock, err := p.lockToStart(t.Context(), sb, 2*time.Millisecond)
	if lock != nil || !errors.Is(err, core.KindConflict) ||
		!strings.Contains(err.Error(), `another sb is starting or stopping the sandbox "busy-box"`) {
		t.Errorf("it is %v, %v", lock, err)
	}
}
