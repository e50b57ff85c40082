//go:build linux

package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// The process that parses what a sandbox sends has no capabilities and a system call filter of its own, in all its threads.
func TestSupervisorIsConfined(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Network = core.Network{Mode: core.NetworkAll} })
	fork := forkOf(t, p, sb.ID)
	for _, id := range []string{sb.ID, fork.ID} {
		threads, err := filepath.Glob(filepath.Join(procOf(t, p, id), "task", "*", "status"))
		if err != nil || len(threads) == 0 {
			t.Fatalf("the supervisor's threads: %v, %v", threads, err)
		}
		for _, thread := range threads {
			status, err := os.ReadFile(thread)
			if err != nil {
				continue // it has ended
			}
			checkStatus(t, string(status))
		}
	}
}

// procOf is the directory in /proc of a sandbox's supervisor.
func procOf(t *testing.T, p *Provider, id string) string {
	t.Helper()
	return filepath.Join("/proc", strconv.Itoa(supervisorPID(t, p, id)))
}

// checkStatus reads the file "status" of a thread: proc_pid_status(5).
func checkStatus(t *testing.T, status string) {
	t.Helper()
	const none = "0000000000000000"
	want := map[string]string{"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2"}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if wanted, checked := want[name]; checked && value != wanted {
			t.Errorf("%s of a thread of the supervisor is %s, not %s", name, value, wanted)
		}
		// The client installs one filter before the supervisor starts.
		if filters, err := strconv.Atoi(value); name == "Seccomp_filters" && (err != nil || filters < 2) {
			t.Errorf("a thread of the supervisor has %s filters", value)
		}
	}
}

// The supervisor sees no files of the machine but those that it needs, and can write only in its sandbox's directory.
func TestSupervisorSeesOnlyItsFiles(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Network = core.Network{Mode: core.NetworkAll} })
	other := launched(t, p, func(*core.Spec) {})
	fork := forkOf(t, p, sb.ID)
	for _, id := range []string{sb.ID, fork.ID} {
		root := filepath.Join(procOf(t, p, id), "root")
		if _, err := os.Stat(filepath.Join(root, p.store.Dir(id))); err != nil {
			t.Fatalf("the sandbox's own directory: %v", err)
		}
		hidden := []string{"/root/.ssh", "/home", "/usr/bin", "/var", "/sys", "/dev/mem", p.store.Dir(other.ID), p.opts.CacheDir}
		if os.Geteuid() == 0 { // else all of /etc may be shown, as other users see it
			hidden = append(hidden, "/etc/crontab", "/etc/passwd", "/etc/shadow", "/etc/ssh")
		}
		for _, path := range hidden {
			if strings.HasPrefix(p.store.Dir(id), path+"/") {
				continue // the test's own directory lies there
			}
			if _, err := os.Lstat(filepath.Join(root, path)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the supervisor sees %s: %v", path, err)
			}
		}
		// gVisor's own files may have a short path.
		writable := []string{p.store.Dir(id), os.DevNull, "/mnt", "/media", "/srv"}
		mounts, err := os.ReadFile(filepath.Join(procOf(t, p, id), "mountinfo"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(mounts)) {
			fields := strings.Fields(line) // the fifth is where, the sixth are the mount's options: proc_pid_mountinfo(5)
			if slices.Contains(strings.Split(fields[5], ","), "rw") && !slices.Contains(writable, fields[4]) {
				t.Errorf("the supervisor can write in %s", fields[4])
			}
		}
	}
}
