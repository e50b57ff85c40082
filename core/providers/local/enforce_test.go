//go:build linux

package local

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// strengths returns the enforcement of each field of a spec.
func strengths(t *testing.T, p *Provider, id string, spec core.Spec) map[string]core.Enforcement {
	t.Helper()
	list, err := p.Enforcement(t.Context(), id, spec)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]core.Enforcement{}
	for _, e := range list {
		fields[e.Field] = e
	}
	return fields
}

// Without the right to make a control group it enforces nothing, also if it is mounted.
func TestEnforcementWithoutControlGroups(t *testing.T) {
	spec := core.Spec{CPU: 0.5, Memory: core.GiB}
	grouped := false
	if os.Geteuid() == 0 {
		// This thread alone loses the right to make directories of root's.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		const unprivileged = 65534
		if err := unix.Setfsuid(unprivileged); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setfsuid(0) }()
	} else {
		grouped = groupFinding("sb-test-"+strconv.Itoa(os.Getpid())).Status == statusOK // this user may make control groups
	}
	fields := strengths(t, &Provider{store: store.New("unused")}, "", spec)
	for _, field := range []string{"cpu", "memory"} {
		e := fields[field]
		full := e.Strength == core.Full && strings.Contains(e.How, "control group")
		partial := e.Strength == core.Partial && !strings.Contains(e.How, "control group") && e.Gap != ""
		if grouped && !full || !grouped && !partial {
			t.Errorf("%s: %+v", field, e)
		}
	}
	if e := strengths(t, &Provider{store: store.New("unused")}, "", core.Spec{CPU: 2})["cpu"]; e.Strength != core.Full {
		t.Errorf("whole cores need no control group: %+v", e)
	}
}

// The report on a running sandbox is read from its control group.
func TestEnforcementOfARunningSandbox(t *testing.T) {
	p, sb, group := grouped(t)
	for _, id := range []string{"", sb.ID} {
		fields := strengths(t, p, id, sb.Spec)
		if fields["cpu"].Strength != core.Full || fields["memory"].Strength != core.Full {
			t.Errorf("%q: %+v", id, fields)
		}
	}
	for _, dir := range group.Dirs {
		for file, none := range map[string]string{"cpu.cfs_quota_us": "-1", "cpu.max": "max"} {
			path := filepath.Join(dir, file)
			if _, err := os.Stat(path); err != nil {
				continue // another version's, or another hierarchy's
			}
			if err := os.WriteFile(path, []byte(none), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	fields := strengths(t, p, sb.ID, sb.Spec)
	if e := fields["cpu"]; e.Strength != core.Partial || fields["memory"].Strength != core.Full {
		t.Errorf("without a quota: %+v", fields)
	}
}
