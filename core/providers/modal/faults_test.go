//go:build linux

package modal_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// The contract holds with the latency of a call to another continent.
func TestContractAtLatency(t *testing.T) {
	programtest.Long(t)
	t.Setenv("SB_SUITE_SECRET", "the host's")
	r := newRig(t, nil)
	r.faults.SetLatency(80 * time.Millisecond)
	providertest.Run(t, r.open)
}

// unsteady plans passing failures for every other call of the methods.
func unsteady(r *rig, methods ...string) {
	for _, method := range methods {
		for range 200 {
			r.faults.Plan(
				method, modaltest.Fault{Code: codes.Unavailable, Message: "try again", After: method == "TaskExecStdinWrite"},
				modaltest.Fault{},
			)
		}
	}
}

// The contract holds if every other call fails or loses its answer after its work, and if streams break.
func TestContractWithFaults(t *testing.T) {
	programtest.Long(t)
	t.Setenv("SB_SUITE_SECRET", "the host's")
	r := newRig(t, nil)
	unsteady(
		r, "TaskExecStart", "TaskExecStdinWrite", "TaskExecStdioRead", "TaskExecWait", "SandboxWaitV2", "SandboxTagsGetV2",
		"AppList", "AuthTokenGet",
	)
	r.faults.Cut("TaskExecStdioRead", 1<<20)
	providertest.Run(t, r.open)
}

// Output and input are complete after broken streams: nothing is lost or duplicated.
func TestBrokenStreamsLoseNothing(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	r.faults.Cut("TaskExecStdioRead", 3<<20)
	for range 50 {
		r.faults.Plan(
			"TaskExecStdinWrite", modaltest.Fault{Code: codes.Unavailable, After: true}, modaltest.Fault{},
			modaltest.Fault{Code: codes.Internal},
		)
	}
	want, got := sha256.New(), sha256.New()
	content := io.LimitReader(rand.NewChaCha8([32]byte{7}), 40<<20)
	exit := ran(t, p, id, core.ExecSpec{Command: []string{"cat"}, Stdin: io.TeeReader(content, want), Stdout: got})
	if exit.Code != 0 || !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
		t.Errorf("the received bytes differ from the sent ones: %+v", exit)
	}
	// A file goes the same way and arrives complete.
	digest := sha256.New()
	body := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{8}), 20<<20), digest)
	if err := p.WriteFile(t.Context(), id, "/tmp/large", body, core.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	back, err := p.ReadFile(t.Context(), id, "/tmp/large")
	if err != nil {
		t.Fatal(err)
	}
	read := sha256.New()
	if _, err := io.Copy(read, back); err != nil {
		t.Fatal(err)
	}
	if err := back.Close(); err != nil || !bytes.Equal(digest.Sum(nil), read.Sum(nil)) {
		t.Errorf("the file is another one, %v", err)
	}
}

// A connection that cannot be restored is an error, never an exit with code 0.
func TestLostConnectionIsAnError(t *testing.T) {
	programtest.Long(t)
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	for range 30 {
		r.faults.Plan("TaskExecWait", modaltest.Fault{Code: codes.Unavailable, Message: "the machine is not reachable"})
	}
	process, err := p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := process.Wait(providertest.Patient(t))
	if !errors.Is(err, core.KindUnavailable) {
		t.Errorf("it ended with %+v, %v", exit, err)
	}
	_ = process.Close()
}

// Modal's errors keep their text and get a kind of core.
func TestRefusals(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	for _, test := range []struct {
		fault modaltest.Fault
		kind  core.Kind
	}{
		{modaltest.Fault{Code: codes.ResourceExhausted, Message: "no H100 is free"}, core.KindExhausted},
		{modaltest.Fault{Code: codes.PermissionDenied, Message: "not your workspace"}, core.KindUnauthorized},
		{modaltest.Fault{Code: codes.InvalidArgument, Message: "no such region"}, core.KindUsage},
	} {
		r.faults.Plan("SandboxCreateV2", test.fault)
		_, err := p.Launch(t.Context(), spec(), lease(), nil)
		if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.fault.Message) {
			t.Errorf("%s: %v (%v)", test.fault.Code, err, core.KindOf(err))
		}
	}
	// A throttled launch waits and succeeds.
	r.faults.Plan(
		"SandboxCreateV2",
		modaltest.Fault{Code: codes.ResourceExhausted, Message: "slow down", RetryAfter: 200 * time.Millisecond},
	)
	launched(t, p, spec())
}

// A spec that Modal would reject is rejected before any call.
func TestSpecIsValidatedBeforeCalls(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	r.server.ResetCalls()
	for name, change := range map[string]func(*core.Spec){
		"unknown GPU":   func(s *core.Spec) { s.GPU = core.GPU{Type: "H1000", Count: 1} },
		"too many GPUs": func(s *core.Spec) { s.GPU = core.GPU{Type: "A10G", Count: 5} },
		"too long":      func(s *core.Spec) { s.Timeout = core.Duration(25 * time.Hour) },
		"too much":      func(s *core.Spec) { s.Memory = core.TiB },
		"a host's port": func(s *core.Spec) { s.Ports = []core.Port{{Host: 80, Sandbox: 80}} },
		"memory limit": func(s *core.Spec) {
			s.Memory, s.Modal = core.GiB, modalspec.Section{MemoryLimit: core.TiB}.JSON()
		},
		"cpu limit":      func(s *core.Spec) { s.Modal = modalspec.Section{CPULimit: 2}.JSON() },
		"no reservation": func(s *core.Spec) { s.Modal = modalspec.Section{MemoryLimit: core.GiB}.JSON() },
		"headers": func(s *core.Spec) {
			s.Modal = modalspec.Section{
				Headers: []modalspec.HeaderReplacement{{Domain: "*", Headers: map[string]string{"A": "$KEY"}}},
			}.JSON()
		},
		"headers and domains": func(s *core.Spec) {
			s.Network = core.Network{Mode: core.NetworkAllow, Allow: []string{"example.com"}}
			s.Modal = modalspec.Section{
				Headers: []modalspec.HeaderReplacement{{Domain: "*", Headers: map[string]string{"A": "b"}}},
			}.JSON()
		},
		"inbound to nothing": func(s *core.Spec) {
			s.Network.Mode, s.Inbound = core.NetworkNone, []string{"203.0.113.0/24"}
		},
		"memory of a GPU": func(s *core.Spec) {
			s.GPU, s.Modal = core.GPU{Type: "T4", Count: 1}, modalspec.Section{MemorySnapshot: true}.JSON()
		},
		"a host's files": func(s *core.Spec) { s.Volumes = []core.Volume{{Source: "/etc", Target: "/x"}} },
	} {
		s := spec()
		change(&s)
		if _, err := p.Launch(t.Context(), s, lease(), nil); !errors.Is(err, core.KindUsage) &&
			!errors.Is(err, core.KindUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := r.server.Calls(); len(calls) > 0 {
		t.Errorf("calls were made: %v", calls)
	}
}

// A GPU request reaches Modal unchanged, and the sandbox runs.
func TestGPU(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.GPU = core.GPU{Type: "A100-80GB", Count: 4}
	sb := launched(t, p, s)
	var out strings.Builder
	if exit := ran(t, p, sb.ID, core.ExecSpec{Command: []string{"echo", "on"}, Stdout: &out}); exit.Code != 0 ||
		out.String() != "on\n" {
		t.Errorf("%+v, %q", exit, out.String())
	}
	all, err := p.List(t.Context())
	if err != nil || len(all) != 1 || all[0].GPU != s.GPU {
		t.Errorf("listed as %+v, %v", all, err)
	}
}

// A token that expires during an operation is renewed.
func TestTokenExpiry(t *testing.T) {
	r := newRig(t, func(o *modaltest.Options) { o.TokenLife = 2 * time.Second })
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	var out strings.Builder
	if exit := ran(
		t, p, id, core.ExecSpec{Command: []string{"sh", "-c", "echo before; sleep 3; echo after"}, Stdout: &out},
	); exit.Code != 0 || out.String() != "before\nafter\n" {
		t.Errorf("%+v, %q", exit, out.String())
	}
	if exit := ran(t, p, id, core.ExecSpec{Command: []string{"true"}}); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
}

// A broken source leaves the old file unchanged. The command does not treat partial input as complete.
func TestBrokenInput(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	broken := io.MultiReader(strings.NewReader("half"), brokenReader{})
	if exit := ran(
		t, p, id, core.ExecSpec{Command: []string{"sh", "-c", "cat >/tmp/whole; echo ok"}, Stdin: broken},
	); exit.Code == 0 {
		t.Error("half an input counted as a whole one")
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the source broke") }
