//go:build linux

package docker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

// TestKata replaces Kata, which no test machine has, with a runtime of its name. That is runc, but as slow to end after
// its processes as Kata's machine.
func TestKata(t *testing.T) {
	d := newDaemon(t, "dockerd")
	runtime := filepath.Join(d.dir, "kata")
	script := "#!/bin/sh\ncase \" $* \" in *' delete '*) sleep 1;; esac\nexec runc \"$@\"\n"
	if err := os.WriteFile(runtime, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	startDocker(t, d, "--add-runtime", "kata="+runtime)
	d.load(t)
	p := d.open(t, func(opts *Options) { opts.Runtime, opts.EngineOnly = "kata", true })
	if !slices.ContainsFunc(p.Diagnose(t.Context()), func(f core.Finding) bool {
		return f.Detail == "no limit of processes"
	}) {
		t.Error("the doctor does not say that processes are not bounded")
	}
	sb := box(t, p, nil)
	if sb.Runtime != "kata" {
		t.Fatalf("it runs in %q", sb.Runtime)
	}
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	// The engine also counts the threads of the first process and of calls. Under Kata, it counts none of the sandbox's.
	if stats, err := p.Stats(t.Context(), sb.ID); err != nil || stats.Processes != 1 {
		t.Errorf("one command uses %+v, %v", stats, err)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if exit, err := process.Wait(providertest.Patient(t)); err != nil || exit.Code != 137 {
		t.Errorf("a command whose sandbox was terminated ended with %+v, %v", exit, err)
	}
}

// TestKataNames checks that a limit that Kata does not enforce is not offered under any of its names.
func TestKataNames(t *testing.T) {
	for runtime, kata := range map[string]bool{
		"": false, "runc": false, "runsc": false, "kata": true, "kata-runtime": true, "io.containerd.kata.v2": true,
		"io.containerd.kata-qemu.v2": true,
	} {
		if inKata(runtime) != kata {
			t.Errorf("%q is Kata's: %v", runtime, !kata)
		}
	}
	p, err := New(Options{Runtime: "kata"})
	if err != nil {
		t.Fatal(err)
	}
	caps := p.Capabilities()
	if caps.Can(core.CapProcesses) {
		t.Error("a bound of processes is offered")
	}
	for _, c := range []core.Capability{
		core.CapMemory, core.CapCPU, core.CapNetAll, core.CapNetAllow, core.CapPorts, core.CapPersist, core.CapSnapshots,
	} {
		if !caps.Can(c) {
			t.Errorf("%s is not offered", c)
		}
	}
}
