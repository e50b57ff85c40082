package mcp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// live reports whether a sandbox exists and has not ended.
func (b *bench) live(t *testing.T, id string) bool {
	t.Helper()
	sb, err := b.service.Sandboxes.Resolve(t.Context(), id)
	if errors.Is(err, core.KindNotFound) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return sb.State.Live()
}

func TestSandboxOutlivesClientByLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, setup.Options{Lease: 600 * time.Millisecond})
		a := b.connect(t)
		sb := a.Launch(nil)
		kept := a.Launch(args{"keep_after_disconnect": true})
		time.Sleep(1500 * time.Millisecond) // several leases: they are renewed while the client is connected
		if !b.live(t, sb) {
			t.Fatal("it ended under its client")
		}
		a.hangUp()
		if !b.live(t, sb) {
			t.Error("it ended with its client, not a lease later")
		}
		eventually(t, "the lease has ended", func() bool { return !b.live(t, sb) })
		if !b.live(t, kept) {
			t.Error("a kept sandbox has ended")
		}
	})
}

// A client that uses a sandbox keeps it alive, even when another client launched it.
func TestLeaseTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, setup.Options{Lease: 600 * time.Millisecond})
		first, second := b.connect(t), b.connect(t)
		sb := first.Launch(nil)
		second.Call("exec", args{"sandbox": sb, "command": "true"})
		first.hangUp()
		time.Sleep(1500 * time.Millisecond)
		if !b.live(t, sb) {
			t.Error("it ended under the client that uses it")
		}
	})
}

// A lifetime that sandbox_timeout sets is independent of leases: it outlives the client and a restart of the server.
func TestTimeoutSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newBench(t, setup.Options{Toolsets: []string{setup.All}, Lease: 300 * time.Millisecond})
		a := first.connect(t)
		long, short := a.Launch(nil), a.Launch(args{"timeout_seconds": 3600})
		got := a.Call("sandbox_timeout", args{"sandbox": long, "timeout_seconds": 7200})
		checkOutput(t, "sandbox_timeout", got)
		if end, err := time.Parse(time.RFC3339, got["expires"].(string)); err != nil || time.Until(end) < time.Hour ||
			got["leased"] != nil {
			t.Errorf("it ends at %v, %v", got, err)
		}
		a.Call("sandbox_timeout", args{"sandbox": short, "timeout_seconds": 3})
		a.hangUp()
		second, err := New(first.service, nil, setup.Options{Toolsets: []string{setup.All}, Lease: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(second.Close)
		b := &bench{Server: second, service: first.service, provider: first.provider}
		back := b.connect(t)
		for range 5 { // each call adopts the sandbox, over several leases
			back.Call("exec", args{"sandbox": long, "command": "sleep 0.2"})
			_ = back.result("exec", args{"sandbox": short, "command": "true"})
		}
		if !b.live(t, long) {
			t.Error("a lease shortened a set timeout")
		}
		eventually(t, "the short one ends", func() bool {
			_ = back.result("sandbox_list", args{"sandbox": short})
			return !b.live(t, short)
		})
		back.hangUp()
		time.Sleep(time.Second) // several leases
		if sb, err := b.service.Sandboxes.Resolve(t.Context(), long); err != nil || !sb.State.Live() ||
			time.Until(sb.Expires) < time.Hour {
			t.Errorf("without a client: %+v, %v", sb, err)
		}
	})
}

// A lease never extends a sandbox beyond its requested lifetime.
func TestLeaseRespectsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, setup.Options{Lease: 300 * time.Millisecond})
		a := b.connect(t)
		sb := a.Launch(args{"timeout_seconds": 1})
		eventually(t, "the timeout", func() bool { return !b.live(t, sb) })
	})
}

func TestOnDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, setup.Options{OnDisconnect: setup.Terminate})
		a := b.connect(t)
		other := b.connect(t)
		sb, others := a.Launch(nil), other.Launch(nil)
		kept := a.Launch(args{"keep_after_disconnect": true})
		a.hangUp()
		eventually(t, "it is terminated", func() bool { return !b.live(t, sb) })
		if !b.live(t, others) || !b.live(t, kept) {
			t.Error("another client's sandbox, or one that was to be kept, went with it")
		}

		b = newBench(t, setup.Options{OnDisconnect: setup.Detach, Lease: 100 * time.Millisecond})
		a = b.connect(t)
		sb = a.Launch(nil)
		a.hangUp()
		time.Sleep(500 * time.Millisecond)
		if !b.live(t, sb) {
			t.Error("a detached sandbox has ended")
		}
		if box, err := b.service.Sandboxes.Resolve(t.Context(), sb); err != nil || box.Lease.Bound || box.Lease.Renewed {
			t.Errorf("a detached sandbox is bound to the server: %+v, %v", box.Lease, err)
		}
	})
}

// A sandbox ends neither during a call longer than a lease nor under a client that only listens.
func TestLeaseLastsDuringCall(t *testing.T) {
	for _, mode := range []setup.OnDisconnect{setup.Lease, setup.Terminate} {
		synctest.Test(t, func(t *testing.T) {
			d := newDirect(t, setup.Options{OnDisconnect: mode, Lease: 5 * time.Minute, SoftDeadline: time.Hour})
			sb, _ := d.Call(t, "sandbox_launch", `{}`)["id"].(string)
			if got := d.Call(t, "exec", `{"sandbox":"`+sb+
				`","command":"sleep 1800; echo done","wait_seconds":3600}`); got["stdout"] != "done\n" {
				t.Errorf("%s: a call of several leases: %v", mode, got)
			}
			listen, hangUp := context.WithTimeout(t.Context(), 30*time.Minute)
			defer hangUp()
			d.ask(listen, "GET", "")
			if !d.live(t, sb) {
				t.Errorf("%s: it ended under a client that listens", mode)
			}
			time.Sleep(20 * time.Minute)
			if d.live(t, sb) {
				t.Errorf("%s: it is still there", mode)
			}
			// Without a session, a request under way is the only sign of a client.
			d.session = ""
			client := d.sessions.Of(t.Context(), auth.Identity{})
			client.Enter()
			time.Sleep(20 * time.Minute)
			if d.sessions.Of(t.Context(), auth.Identity{}) != client {
				t.Errorf("%s: a client with a request is forgotten", mode)
			}
			client.Leave()
			time.Sleep(20 * time.Minute)
			if d.sessions.Count() != 0 {
				t.Errorf("%s: a client of long ago is remembered", mode)
			}
		})
	}
}

// A launch that completes after its client has left leaves no sandbox.
func TestLaunchUnknownToClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(t, setup.Options{OnDisconnect: setup.Terminate, SoftDeadline: time.Hour})
		c := d.host.Call(t.Context(), mcp.CallToolRequest{})
		d.provider.Inject(fake.OpLaunch, fake.Fault{Delay: time.Minute, Times: 1})
		launched := make(chan core.Sandbox)
		go func() {
			sb, err := c.Launch(t.Context(), core.Spec{}, false)
			if err != nil {
				t.Error(err)
			}
			launched <- sb
		}()
		synctest.Wait()
		d.sessions.Gone(c.Session.ID)
		if sb := <-launched; d.live(t, sb.ID) {
			t.Error("the sandbox keeps running without a client")
		}
	})
}

// A sandbox that two clients use stays while one of them is connected.
func TestSharedSandboxOutlivesOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, setup.Options{OnDisconnect: setup.Terminate})
		first, second := b.connect(t), b.connect(t)
		sb := first.Launch(nil)
		second.Call("exec", args{"sandbox": sb, "command": "true"})
		second.hangUp()
		synctest.Wait()
		if !b.live(t, sb) {
			t.Fatal("it ended with a client that had used it, under the one that launched it")
		}
		first.hangUp()
		eventually(t, "it is terminated", func() bool { return !b.live(t, sb) })
	})
}

// cannotRenew is a provider without leases and journal, like the clouds.
type cannotRenew struct{ *fake.Provider }

func (p cannotRenew) Capabilities() core.Capabilities {
	caps := p.Provider.Capabilities()
	caps.Has = slices.DeleteFunc(slices.Clone(caps.Has), func(c core.Capability) bool {
		return c == core.CapRenew || c == core.CapJournal || c == core.CapAttach || c == core.CapLogs
	})
	return caps
}

// Without a journal, the server reports only the output that it captured.
func TestWithoutJournal(t *testing.T) {
	provider := fake.New(fake.Options{})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{{
		Name: "fake", IDPrefix: "fak-", Open: func() (core.Provider, error) { return cannotRenew{provider}, nil },
	}}})
	a := benchOver(t, provider, svc, setup.Options{Toolsets: []string{setup.All}}).connect(t)
	sb := a.Launch(nil)
	got := a.Call("exec", args{"sandbox": sb, "command": "echo begun; sleep 600", "wait_seconds": 1})
	if got["running"] != true || got["stdout"] != "begun\n" {
		t.Errorf("at the soft deadline: %v", got)
	}
	if got = a.Call("exec_wait", args{
		"sandbox": sb, "exec_id": got["exec_id"], "wait_seconds": 0,
	}); got["running"] != true || got["stdout"] != "begun\n" {
		t.Errorf("later: %v", got)
	}
	if got = a.Call("exec_kill", args{"sandbox": sb, "exec_id": got["exec_id"]}); got["exit_code"] != 143.0 {
		t.Errorf("killed: %v", got)
	}
	a.fails(core.KindUnsupported, "exec_wait", args{"sandbox": sb, "exec_id": got["exec_id"]})
	a.fails(core.KindUnsupported, "exec_list", args{"sandbox": sb})
}

// Without leases, sandboxes end with their client. Those of a killed server remain for sb prune.
func TestWithoutLeases(t *testing.T) {
	provider := fake.New(fake.Options{})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{{
		Name: "fake", IDPrefix: "fak-", Open: func() (core.Provider, error) { return cannotRenew{provider}, nil },
	}}})
	b := benchOver(t, provider, svc, setup.Options{})
	a := b.connect(t)
	sb := a.Launch(nil)
	a.hangUp()
	eventually(t, "it is terminated", func() bool { return !b.live(t, sb) })
}

// The sandboxes of a killed server appear in sb ls --orphans and end with their lease: each has an owner and an end.
func TestLaunchesAreBoundAndNamed(t *testing.T) {
	b := newBench(t, setup.Options{MaxSandboxes: 2})
	a := b.connect(t)
	sb, err := b.service.Sandboxes.Resolve(t.Context(), a.Launch(args{"name": "dev"}))
	if err != nil {
		t.Fatal(err)
	}
	if !sb.Lease.Renewed || sb.Lease.Bound || sb.Name != "mcp-dev" ||
		!strings.HasPrefix(sb.Lease.Owner.Actor, "mcp/stdio-") {
		t.Errorf("%s with lease %+v", sb.Name, sb.Lease)
	}
	if sb.Expires.IsZero() || time.Until(sb.Expires) > b.opts.Lease {
		t.Errorf("without a renewal it ends at %v", sb.Expires)
	}
	a.Launch(nil)
	text := a.fails(core.KindExhausted, "sandbox_launch", nil)
	if !strings.Contains(text, "limit of 2 sandboxes") {
		t.Errorf("the cap: %s", text)
	}
	a.fails(core.KindExhausted, "run_code", args{"language": "bash", "code": "true"})
	a.Call("sandbox_terminate", args{"sandbox": "dev"})
	a.Launch(nil)
}

func TestPolicyHoldsForEveryWayToLaunch(t *testing.T) {
	b := newBench(
		t,
		setup.Options{
			Policy: service.LaunchPolicy{Images: []string{"host"}, GPUs: []string{"none"}, MaxTimeout: core.Duration(time.Hour)},
		},
	)
	a := b.connect(t)
	a.fails(core.KindUnauthorized, "sandbox_launch", args{"image": "evil"})
	a.fails(core.KindUnauthorized, "sandbox_launch", args{"gpu": "T4"})
	a.fails(core.KindUnauthorized, "sandbox_launch", args{"timeout_seconds": 7200})
	b = newBench(
		t, setup.Options{Toolsets: []string{setup.All}, Policy: service.LaunchPolicy{MaxTimeout: core.Duration(time.Hour)}},
	)
	a = b.connect(t)
	a.fails(core.KindUnauthorized, "sandbox_timeout", args{"sandbox": a.Launch(nil), "timeout_seconds": 7200})
}
