package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// A read-only sandbox has its image, writable directories in memory, and writable volumes.
func TestReadOnly(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		volume := core.NewName()
		t.Cleanup(func() { _ = p.RemoveVolume(context.WithoutCancel(t.Context()), volume) })
		sb := box(t, p, func(spec *core.Spec) {
			spec.ReadOnly, spec.ShmSize = true, 16*core.MiB
			spec.Tmpfs = []core.Tmpfs{{Target: "/scratch/", Size: 8 * core.MiB}, {Target: "/bin/of"}}
			spec.Volumes = []core.Volume{{Source: volume, Target: "/data"}}
		})
		for _, path := range []string{"/new", "/bin/new", "/etc/new"} {
			if out, code := sh(t, p, sb.ID, "echo text >"+path); code == 0 || !strings.Contains(out, "Read-only") {
				t.Errorf("writing %s: %q, %d", path, out, code)
			}
		}
		for _, dir := range []string{"/tmp", "/scratch", "/bin/of", "/data", "/dev/shm"} {
			if out, code := run(t, p, sb.ID, core.ExecSpec{
				Command: []string{"sh", "-c", "echo text >" + dir + "/new && cat " + dir + "/new"},
			}); out != "text\n" || code != 0 {
				t.Errorf("writing in %s: %q, %d", dir, out, code)
			}
		}
		if out, code := sh(t, p, sb.ID, "printf '#!/bin/sh\necho ran\n' >/tmp/x; chmod +x /tmp/x; /tmp/x"); out != "ran\n" {
			t.Errorf("a program in /tmp: %q, %d", out, code)
		}
		for dir, size := range map[string]core.Bytes{"/scratch": 8 * core.MiB, "/dev/shm": 16 * core.MiB} {
			out, _ := sh(t, p, sb.ID, "df -k "+dir+" | tail -n 1")
			if fields := strings.Fields(out); len(fields) < 2 || fields[1] != fmt.Sprint(int64(size/core.KiB)) {
				t.Errorf("%s has %q, want %s", dir, out, size)
			}
		}
		list, err := p.Enforcement(t.Context(), sb.ID, sb.Spec)
		for _, field := range []string{"read_only", "shm_size"} {
			if err != nil || !slices.ContainsFunc(list, func(e core.Enforcement) bool {
				return e.Field == field && e.Strength == core.Full
			}) {
				t.Errorf("%s: %+v, %v", field, list, err)
			}
		}
	})
}

// The image's own files are not in a directory in memory, and its end is that of the sandbox.
func TestTmpfs(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) {
			spec.Persist, spec.Tmpfs = true, []core.Tmpfs{{Target: "/etc"}, {Target: "/scratch"}}
		})
		if out, _ := sh(t, p, sb.ID, "ls /etc/passwd; echo text >/scratch/new; echo text >/kept"); !strings.Contains(
			out, "No such file",
		) {
			t.Errorf("/etc has the image's files: %q", out)
		}
		if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if out, _ := sh(t, p, sb.ID, "ls /scratch; cat /kept"); out != "text\n" {
			t.Errorf("after the start: %q", out)
		}
	})
}

// The name servers of a launch are the sandbox's, and the policy opens their port.
func TestDNS(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) {
			spec.Network.Mode, spec.DNS = core.NetworkAll, []string{"192.0.2.53", "192.0.2.54"}
		})
		out, _ := sh(t, p, sb.ID, "grep nameserver /etc/resolv.conf; ip rule")
		for _, want := range []string{"nameserver 192.0.2.53\nnameserver 192.0.2.54\n", "to 192.0.2.53", "to 192.0.2.54"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q lacks %q", out, want)
			}
		}
	})
}
