package providertest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Opener returns a provider over the same sandboxes at each call. The test closes it.
type Opener func(t testing.TB) core.Provider

// Run runs the contract.
func Run(t *testing.T, open Opener) {
	t.Helper()
	s := &suite{open: open}
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"Capabilities", s.capabilities},
		{"Lifecycle", s.lifecycle},
		{"Names", s.names},
		{"Entry", s.entry},
		{"ImageSettings", s.imageSettings},
		{"Lifetimes", s.lifetimes},
		{"Persistence", s.persistence},
		{"PersistentLifetimes", s.persistentLifetimes},
		{"Pause", s.pause},
		{"Exec", s.exec},
		{"Streams", s.streams},
		{"Journal", s.journal},
		{"Terminal", s.terminal},
		{"Files", s.files},
		{"FileWatch", s.fileWatch},
		{"Limits", s.limits},
		{"Stats", s.stats},
		{"TwoCallers", s.twoCallers},
		{"EndUnderCommand", s.endUnderCommand},
		{"Watch", s.watch},
		{"VolumeStore", s.volumeStore},
		{"Volumes", s.volumes},
		{"SecretStore", s.secretStore},
		{"ImageStore", s.imageStore},
		{"Builds", s.builds},
		{"AppStore", s.appStore},
		{"EnvironmentStore", s.environmentStore},
		{"Snapshots", s.snapshots},
		{"NetworkUpdate", s.networkUpdate},
		{"NetworkInternal", s.networkInternal},
		{"Tunnels", s.tunnels},
		{"PortForward", s.portForward},
		{"Ready", s.ready},
		{"Enforce", s.enforce},
		{"Fork", s.fork},
		{"Checkpoints", s.checkpoints},
		{"Denials", s.denials},
	} {
		t.Run(part.name, part.test)
	}
}

type suite struct{ open Opener }

// deadline bounds every wait in the suite.
const deadline = 60 * time.Second

// provider opens the provider, and closes it at the end of the test.
func (s *suite) provider(t testing.TB) core.Provider {
	t.Helper()
	p := s.open(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return p
}

// launch makes a sandbox, and terminates it at the end of the test.
func launch(t testing.TB, p core.Provider, change func(*core.Spec)) core.Sandbox {
	t.Helper()
	return launchWith(t, p, change, func(*core.Lease) {})
}

// launchWith is launch with changes to the lease.
func launchWith(t testing.TB, p core.Provider, change func(*core.Spec), lease func(*core.Lease)) core.Sandbox {
	t.Helper()
	caps := p.Capabilities()
	spec := core.Spec{
		Name: core.NewName(), App: "suite", Image: first(caps.Images), Network: core.Network{Mode: core.NetworkNone},
	}
	if caps.Can(core.CapMemory) {
		spec.Memory = 512 * core.MiB
	}
	if caps.Can(core.CapDisk) {
		spec.Disk = 256 * core.MiB
	}
	if caps.Can(core.CapProcesses) {
		spec.Processes = 256
	}
	if change != nil {
		change(&spec)
	}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	held := core.Lease{Owner: core.CurrentOwner("suite"), Created: time.Now()}
	lease(&held)
	sb, err := p.Launch(t.Context(), spec, held, nil)
	if err != nil {
		t.Fatalf("launching: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Terminate(context.WithoutCancel(t.Context()), sb.ID); err != nil && !errors.Is(err, core.KindNotFound) {
			t.Errorf("terminating: %v", err)
		}
	})
	return sb
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// result is the output and the exit of a command.
type result struct {
	out, err string
	exit     core.Exit
}

// run runs a command to its end.
func run(t testing.TB, p core.Provider, id string, spec core.ExecSpec) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if spec.Stdout == nil {
		spec.Stdout = &stdout
	}
	if spec.Stderr == nil {
		spec.Stderr = &stderr
	}
	process := begin(t, p, id, spec)
	exit := wait(t, process)
	return result{stdout.String(), stderr.String(), exit}
}

// sh runs a line of shell to its end.
func sh(t testing.TB, p core.Provider, id, line string) result {
	t.Helper()
	return run(t, p, id, core.ExecSpec{Command: []string{"sh", "-c", line}})
}

// begin starts a command, and closes its Process at the end of the test.
func begin(t testing.TB, p core.Provider, id string, spec core.ExecSpec) core.Process {
	t.Helper()
	process, err := p.Exec(t.Context(), id, spec)
	if err != nil {
		t.Fatalf("%v: %v", spec.Command, err)
	}
	t.Cleanup(func() { _ = process.Close() })
	return process
}

func wait(t testing.TB, process core.Process) core.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	exit, err := process.Wait(ctx)
	if err != nil {
		t.Fatalf("waiting for command %s: %v", process.ID(), err)
	}
	return exit
}

// eventually polls until holds returns true.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("it never came to pass: %s", what)
		}
	}
}

// wantKind checks an error's kind.
func wantKind(t testing.TB, err error, kind core.Kind) {
	t.Helper()
	if err == nil || core.KindOf(err) != kind {
		t.Errorf("error is %v (%v), want one of kind %v", err, core.KindOf(err), kind)
	}
}

// optional returns the interface T if p has its capability. It reports an error if p has the capability without the
// interface.
func optional[T any](t *testing.T, p core.Provider) (T, bool) {
	t.Helper()
	v, ok := core.Optional[T](p)
	if want := core.CapabilityOf[T](); !ok && p.Capabilities().Can(want) {
		t.Errorf("capability %q without the interface", want)
	}
	return v, ok
}
