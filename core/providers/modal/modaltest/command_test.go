//go:build linux

package modaltest_test

import (
	"os"
	"testing"

	"github.com/seed-0724f904/sb/core/programtest"
)

// A sandbox with many commands does not exhaust the server's file descriptors.
func TestCommandsAreForgotten(t *testing.T) {
	programtest.Long(t)
	r := newRig(t, nil)
	sb := r.create(nil)
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	stat := func(times int) {
		for range times {
			if _, err := sb.Filesystem.Stat(t.Context(), "/tmp", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	stat(210)
	before := files()
	stat(100)
	if after := files(); after > before+20 {
		t.Errorf("100 commands hold %d files", after-before)
	}
	if out := run(t, sb, "echo here"); out != "here\n" {
		t.Errorf("the last command wrote %q", out)
	}
}
