package providertest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// networkUpdate changes the policy of a running sandbox, which keeps it after a fork, a stop and a start. The
// provider's own tests check the effect on connections.
func (s *suite) networkUpdate(t *testing.T) {
	p := s.provider(t)
	policer, ok := optional[core.NetworkPolicer](t, p)
	if !ok {
		return
	}
	caps := p.Capabilities()
	sb := launch(t, p, func(spec *core.Spec) {
		if caps.Can(core.CapNetAll) {
			spec.Network.Mode = core.NetworkAll
		}
		spec.Persist = caps.Can(core.CapPersist)
	})
	for _, want := range []core.Network{
		{Mode: core.NetworkAllow, Allow: []string{"192.0.2.0/24"}}, {Mode: core.NetworkNone},
	} {
		if want.Mode == core.NetworkAllow && !caps.Can(core.CapNetAllow) {
			continue
		}
		changed, err := policer.SetNetwork(t.Context(), sb.ID, want)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		got, err := p.Get(t.Context(), sb.ID)
		for _, now := range []core.Network{changed.Spec.Network, got.Spec.Network} {
			if err != nil || now.Mode != want.Mode || !slices.Equal(now.Allow, want.Allow) {
				t.Errorf("the policy is %+v, %v; want %+v", now, err, want)
			}
		}
	}
	if forker, ok := optional[core.Forker](t, p); ok {
		fork, err := forker.Fork(
			t.Context(), sb.ID, core.ForkSpec{Name: core.NewName()},
			core.Lease{Owner: core.CurrentOwner("suite"), Created: time.Now()},
		)
		if err != nil {
			t.Fatal(err)
		}
		endAfter(t, p, fork.ID)
		if fork.Spec.Network.Mode != core.NetworkNone {
			t.Errorf("the fork's policy is %+v", fork.Spec.Network)
		}
	}
	if stopper, ok := optional[core.Stopper](t, p); ok && caps.Can(core.CapPersist) {
		if err := stopper.Stop(t.Context(), sb.ID, time.Second); err != nil {
			t.Fatal(err)
		}
		_, err := policer.SetNetwork(t.Context(), sb.ID, core.Network{Mode: core.NetworkNone})
		wantKind(t, err, core.KindConflict)
		if again, err := stopper.Start(t.Context(), sb.ID); err != nil || again.Spec.Network.Mode != core.NetworkNone {
			t.Errorf("the policy after a stop is %+v, %v", again.Spec.Network, err)
		}
	}
	_, err := policer.SetNetwork(t.Context(), "no-such-id", core.Network{Mode: core.NetworkNone})
	wantKind(t, err, core.KindNotFound)
}

// networkInternal launches two sandboxes of an app that reach only each other. The provider's own tests check their
// connections.
func (s *suite) networkInternal(t *testing.T) {
	p := s.provider(t)
	if !p.Capabilities().Can(core.CapNetInternal) {
		return
	}
	internal := func(spec *core.Spec) { spec.Network.Mode = core.NetworkInternal }
	for _, sb := range []core.Sandbox{launch(t, p, internal), launch(t, p, internal)} {
		got, err := p.Get(t.Context(), sb.ID)
		if err != nil || got.State != core.StateRunning || got.Spec.Network.Mode != core.NetworkInternal {
			t.Errorf("it is %s with network %q, %v", got.State, got.Spec.Network.Mode, err)
		}
	}
	spec := core.Spec{Network: core.Network{Mode: core.NetworkInternal, Allow: []string{"192.0.2.0/24"}}}
	wantKind(t, spec.Validate(), core.KindUsage)
}

// tunnels publishes a port and requests its address.
func (s *suite) tunnels(t *testing.T) {
	p := s.provider(t)
	tunneler, ok := optional[core.Tunneler](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, func(spec *core.Spec) { spec.Ports = []core.Port{{Sandbox: 9000}, {Sandbox: 8000}} })
	tunnels, err := tunneler.Tunnels(t.Context(), sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(tunnels) != 2 || tunnels[0].Port != 8000 || tunnels[1].Port != 9000 ||
		!strings.Contains(tunnels[0].Address, ":") || tunnels[0].Protocol == "" {
		t.Errorf("the tunnels are %+v", tunnels)
	}
	token, err := tunneler.ConnectToken(t.Context(), sb.ID, core.ConnectOptions{Port: 8000})
	if errors.Is(err, core.KindUnsupported) {
		return
	}
	if err != nil || token.URL == "" || token.Token.Empty() {
		t.Errorf("the token is %+v, %v", token, err)
	}
}

// portForward connects to a port without a listener, and to a port of a missing sandbox. The provider's own tests check
// the transfer of bytes, because listeners differ by image.
func (s *suite) portForward(t *testing.T) {
	p := s.provider(t)
	forwarder, ok := optional[core.PortForwarder](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, nil)
	_, err := forwarder.DialPort(t.Context(), sb.ID, 54321)
	wantKind(t, err, core.KindUnavailable)
	_, err = forwarder.DialPort(t.Context(), "no-such-id", 54321)
	wantKind(t, err, core.KindNotFound)
}

// ready waits for a probe that fails at first.
func (s *suite) ready(t *testing.T) {
	p := s.provider(t)
	waiter, ok := optional[core.ReadyWaiter](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, func(spec *core.Spec) {
		spec.Ready = &core.Probe{Exec: []string{"test", "-e", "/tmp/ready"}, Interval: core.Duration(100 * time.Millisecond)}
	})
	done := make(chan error, 1)
	go func() { done <- waiter.WaitReady(t.Context(), sb.ID) }()
	select {
	case err := <-done:
		t.Fatalf("it was ready before it was: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if r := sh(t, p, sb.ID, "touch /tmp/ready"); r.exit.Code != 0 {
		t.Fatalf("%+v", r)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(deadline):
		t.Fatal("it never was ready")
	}
	wantKind(t, waiter.WaitReady(t.Context(), launch(t, p, nil).ID), core.KindConflict)
}

// enforce requests the enforcement of a spec. Each limiting field must have an entry, and an entry that is not fully
// enforced must name its gap.
func (s *suite) enforce(t *testing.T) {
	p := s.provider(t)
	enforcer, ok := optional[core.Enforcer](t, p)
	if !ok {
		return
	}
	caps := p.Capabilities()
	spec := core.Spec{Image: first(caps.Images), Timeout: core.Duration(time.Hour)}
	for _, limit := range []struct {
		capability core.Capability
		set        func()
	}{
		{core.CapCPU, func() { spec.CPU = 1 }},
		{core.CapMemory, func() { spec.Memory = core.GiB }},
		{core.CapDisk, func() { spec.Disk = core.GiB }},
		{core.CapProcesses, func() { spec.Processes = 100 }},
		{core.CapOpenFiles, func() { spec.OpenFiles = 100 }},
		{core.CapShmSize, func() { spec.ShmSize = core.MiB }},
		{core.CapReadOnly, func() { spec.ReadOnly = true }},
		{core.CapIdle, func() { spec.IdleTimeout = core.Duration(time.Minute) }},
		{core.CapNetNone, func() { spec.Network = core.Network{Mode: core.NetworkNone} }},
		{core.CapNetAllow, func() { spec.Network = core.Network{Mode: core.NetworkAllow, Allow: []string{"192.0.2.0/24"}} }},
		{core.CapInbound, func() { spec.Inbound = []string{"192.0.2.0/24"} }},
	} {
		if caps.Can(limit.capability) {
			limit.set()
		}
	}
	list, err := enforcer.Enforcement(t.Context(), "", spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range spec.EnforcedFields() {
		at := slices.IndexFunc(list, func(e core.Enforcement) bool { return e.Field == asked.Field })
		if at < 0 {
			t.Errorf("nothing is said of %s", asked.Field)
			continue
		}
		switch e := list[at]; e.Strength {
		case core.Full:
			if e.How == "" {
				t.Errorf("%+v does not name its enforcement", e)
			}
		case core.Partial, core.Unenforced:
			if e.Gap == "" {
				t.Errorf("%+v does not name its gap", e)
			}
		case core.Unknown:
			t.Errorf("%+v: its strength was reported, so it is known", e)
		default:
			t.Errorf("%+v", e)
		}
	}
}
