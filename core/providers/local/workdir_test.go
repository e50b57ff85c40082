//go:build linux

package local

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// The error is about the directory, not about the program.
func TestNoSuchWorkdir(t *testing.T) {
	p, sb := crashed(t, nil)
	for what, spec := range map[string]core.ExecSpec{
		"a command": {}, "a detached one": {Detach: true}, "one on a terminal": {TTY: true},
	} {
		spec.Command, spec.Workdir = []string{"true"}, "/no/such/directory"
		process, err := p.Exec(t.Context(), sb.ID, spec)
		if !errors.Is(err, core.KindNotFound) || !strings.Contains(err.Error(), spec.Workdir) {
			t.Errorf("%s: %v, %v", what, process, err)
		}
	}
	execs, err := p.Execs(t.Context(), sb.ID)
	if err != nil || len(execs) != 3 {
		t.Fatalf("%+v, %v", execs, err)
	}
	for _, e := range execs {
		if e.Exit == nil || e.Exit.Code != 125 {
			t.Errorf("%+v does not say how it ended", e)
		}
	}
}

// A directory that the sandbox lacks is made before its entry command starts.
func TestWorkdirIsMade(t *testing.T) {
	const dir = "/no/such/directory"
	p, sb := crashed(t, func(spec *core.Spec) {
		spec.Workdir, spec.Command = dir, []string{"sh", "-c", "pwd > here; exec sleep 60"}
	})
	var out bytes.Buffer
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{
		Command: []string{"sh", "-c", "until [ -s here ]; do sleep 0.1; done; cat here; stat -c %u:%a ."}, Stdout: &out,
		Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := process.Wait(t.Context()); err != nil || exit.Code != 0 || out.String() != dir+"\n0:755\n" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	_, err = p.Launch(t.Context(), core.Spec{
		Name: core.NewName(), Image: HostImage, Network: core.Network{Mode: core.NetworkNone}, Workdir: "/etc/passwd",
	}, core.Lease{}, nil)
	if err == nil || !strings.Contains(err.Error(), "the directory for commands cannot be made: /etc/passwd") {
		t.Errorf("a file in its place: %v", err)
	}
}
