//go:build linux

package cgroup

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// group makes a group, or skips the test if this machine does not allow one.
func group(t *testing.T, l Limits) *Group {
	t.Helper()
	g, err := Find("sb-test-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Skip("control groups: ", err)
	}
	if err := g.Create(l); err != nil {
		t.Skip("control groups: ", err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		for _, dir := range g.Dirs {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", dir, err)
			}
		}
	})
	return g
}

// in runs a command in a group as spawn does it in version 1, and otherwise by moving it.
func in(t *testing.T, g *Group, argv ...string) error {
	t.Helper()
	// The shell waits until it has been moved.
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `read go; exec "$@"`, "sh"}, argv...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.Dirs {
		if err := write(dir, "cgroup.procs", strconv.Itoa(cmd.Process.Pid)); err != nil {
			t.Error(err)
		}
	}
	if _, err := io.WriteString(stdin, "\n"); err != nil {
		t.Error(err)
	}
	return cmd.Wait()
}

func TestMemoryLimitKills(t *testing.T) {
	g := group(t, Limits{Memory: 64 << 20})
	m := g.Member()
	defer func() { _ = m.Close() }()
	if m.OutOfMemory() {
		t.Error("a new group says that it is out of memory")
	}
	if err := in(t, g, "true"); err != nil || m.OutOfMemory() {
		t.Errorf("a small command: %v, out of memory: %v", err, m.OutOfMemory())
	}
	// tail keeps a line that never ends in memory.
	err := in(t, g, "sh", "-c", "head -c 200m /dev/zero | tail")
	if !m.OutOfMemory() {
		t.Errorf("200 MB fit into 64 MB: %v", err)
	}
}

func TestLimitsAreSet(t *testing.T) {
	g := group(t, Limits{CPU: 0.5, Memory: 64 << 20, Tasks: 77})
	var text strings.Builder
	for _, name := range []string{"cpu.cfs_quota_us", "cpu.max", "memory.limit_in_bytes", "memory.max", "pids.max"} {
		for _, dir := range g.Dirs {
			if value, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				text.Write(value)
			}
		}
	}
	for controller, want := range map[string]string{"cpu": "50000", "memory": strconv.Itoa(64 << 20), "pids": "77"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is not limited to %s: the files hold %q", controller, want, text.String())
		}
	}
}

func TestGroupIsCreatedOnce(t *testing.T) {
	g := group(t, Limits{Tasks: 50})
	again := *g
	if err := again.Create(Limits{}); err == nil {
		t.Error("a group was made twice")
	}
	for _, dir := range g.Dirs {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the second attempt took the first one's group: %v", err)
		}
	}
}

func TestRemoveOfNothing(t *testing.T) {
	g := &Group{Dirs: []string{filepath.Join(t.TempDir(), "never")}}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

func TestTry(t *testing.T) {
	group(t, Limits{}) // skips where none can be made
	limits := Limits{CPU: 0.5, Memory: 64<<20 + 1, Tasks: 77}
	name := "sb-try-" + strconv.Itoa(os.Getpid())
	controllers, err := Try(name, limits)
	if err != nil || len(controllers) == 0 {
		t.Fatalf("%q, %v", controllers, err)
	}
	g, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range g.Dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	if held, err := g.Held(limits); err == nil {
		t.Errorf("a group that is not there holds %q", held)
	}
}
