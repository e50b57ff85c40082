package providertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

func (s *suite) capabilities(t *testing.T) {
	p := s.provider(t)
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("the provider is not usable: %v (%s)", err, core.HintOf(err))
	}
	named := map[core.Capability]bool{}
	for _, c := range p.Capabilities().Has {
		if named[c] {
			t.Errorf("capability %q twice", c)
		}
		named[c] = true
	}
}

func (s *suite) lifecycle(t *testing.T) {
	p := s.provider(t)
	var steps []string
	spec := core.Spec{
		Name: core.NewName(), App: "suite", Image: first(p.Capabilities().Images), Labels: map[string]string{"a": "b"},
		Secrets: []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}},
	}
	lease := core.Lease{Owner: core.CurrentOwner("suite"), Created: time.Now()}
	lease.Owner.ID = "0123456789abcdef"
	sb, err := p.Launch(t.Context(), spec, lease, func(step core.Progress) { steps = append(steps, step.Step) })
	if err != nil {
		t.Fatal(err)
	}
	if sb.State != core.StateRunning || sb.Name != spec.Name || sb.App != "suite" || sb.Labels["a"] != "b" ||
		sb.Lease.Owner != lease.Owner {
		t.Errorf("launched %+v", sb)
	}
	if !sb.Spec.Secrets[0].Value.Empty() {
		t.Error("the spec that came back holds a secret")
	}
	if out := sh(t, p, sb.ID, "echo $TOKEN").out; out != "s3cret\n" {
		t.Errorf("the secret inside is %q", out)
	}
	got, err := p.Get(t.Context(), sb.ID)
	if err != nil || got.ID != sb.ID || got.State != core.StateRunning {
		t.Errorf("Get: %+v, %v", got, err)
	}
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, other := range all {
		found = found || other.ID == sb.ID
	}
	if !found {
		t.Error("List does not have the sandbox")
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, p.Terminate(t.Context(), sb.ID), core.KindNotFound)
	_, err = p.Get(t.Context(), sb.ID)
	wantKind(t, err, core.KindNotFound)
	_, err = p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"true"}})
	if !errors.Is(err, core.KindNotFound) && !errors.Is(err, core.KindConflict) {
		t.Errorf("exec in a terminated sandbox: %v", err)
	}
	_, err = p.Get(t.Context(), "no-such-id")
	wantKind(t, err, core.KindNotFound)
}

func (s *suite) names(t *testing.T) {
	p := s.provider(t)
	name := core.NewName()
	errs := make([]error, 4)
	ids := make([]string, len(errs))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			sb, err := p.Launch(
				t.Context(), core.Spec{Name: name, Image: first(p.Capabilities().Images)},
				core.Lease{Owner: core.CurrentOwner("suite"), Created: time.Now()}, nil,
			)
			ids[i], errs[i] = sb.ID, err
		})
	}
	wg.Wait()
	winner := ""
	for i, err := range errs {
		if err != nil {
			wantKind(t, err, core.KindConflict)
			continue
		}
		if winner != "" {
			t.Error("two sandboxes got one name")
		}
		winner = ids[i]
	}
	if winner == "" {
		t.Fatal("no launch got the name")
	}
	if finder, ok := p.(core.Finder); ok {
		if sb, err := finder.FindName(t.Context(), name); err != nil || sb.ID != winner {
			t.Errorf("FindName: %+v, %v", sb, err)
		}
		_, err := finder.FindName(t.Context(), core.NewName()+"-not-there")
		wantKind(t, err, core.KindNotFound)
	}
	if err := p.Terminate(t.Context(), winner); err != nil {
		t.Fatal(err)
	}
	launch(t, p, func(spec *core.Spec) { spec.Name = name })
}

func (s *suite) entry(t *testing.T) {
	p := s.provider(t)
	waiter, ok := optional[core.Waiter](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, func(spec *core.Spec) { spec.Command = []string{"sh", "-c", "echo one; echo two >&2; exit 9"} })
	ended, err := waiter.WaitSandbox(Patient(t), sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	if ended.State != core.StateExited || ended.Reason != core.ReasonCommand || ended.ExitCode == nil ||
		*ended.ExitCode != 9 {
		t.Errorf("ended as %+v", ended)
	}
	if logs, ok := optional[core.LogReader](t, p); ok {
		text := map[core.Stream]string{}
		for record, err := range logs.Logs(t.Context(), sb.ID, core.LogOptions{Tail: -1, Follow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			text[record.Stream] += string(record.Data)
		}
		if text[core.Stdout] != "one\n" || text[core.Stderr] != "two\n" {
			t.Errorf("the log is %q", text)
		}
	}
	if _, err := p.Launch(
		t.Context(),
		core.Spec{Name: core.NewName(), Image: first(p.Capabilities().Images), Command: []string{"no-such-program"}},
		core.Lease{Owner: core.CurrentOwner("suite")}, nil,
	); err == nil {
		t.Error("an entry command that is not there was launched")
	}
}

func (s *suite) lifetimes(t *testing.T) {
	p := s.provider(t)
	waiter, ok := p.(core.Waiter)
	if !ok {
		return
	}
	for _, test := range []struct {
		capability core.Capability
		reason     core.Reason
		change     func(*core.Spec)
	}{
		{core.CapTimeout, core.ReasonTimeout, func(spec *core.Spec) { spec.Timeout = core.Duration(time.Second) }},
		{core.CapIdle, core.ReasonIdle, func(spec *core.Spec) { spec.IdleTimeout = core.Duration(time.Second) }},
	} {
		if !p.Capabilities().Can(test.capability) {
			continue
		}
		sb := launch(t, p, test.change)
		ended, err := waiter.WaitSandbox(Patient(t), sb.ID)
		if err != nil || ended.State != core.StateExited || ended.Reason != test.reason {
			t.Errorf("%s: ended as %s (%s), %v", test.capability, ended.State, ended.Reason, err)
		}
	}
	if p.Capabilities().Can(core.CapTimeout) {
		// The reason is the timeout, not the entry command that it kills.
		sb := launch(t, p, func(spec *core.Spec) {
			spec.Timeout, spec.Command = core.Duration(time.Second), []string{"sleep", "600"}
		})
		ended, err := waiter.WaitSandbox(Patient(t), sb.ID)
		if err != nil || ended.State != core.StateExited || ended.Reason != core.ReasonTimeout {
			t.Errorf("with an entry command: ended as %s (%s), %v", ended.State, ended.Reason, err)
		}
	}
	renewer, ok := p.(core.Renewer)
	if !ok {
		return
	}
	leased := launchWith(t, p, func(spec *core.Spec) {
		spec.Timeout = core.Duration(time.Hour)
	}, func(lease *core.Lease) { lease.Renewed = true })
	if err := renewer.KeepAlive(t.Context(), leased.ID, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get(t.Context(), leased.ID); err != nil || !got.Lease.Renewed ||
		time.Until(got.Expires) > 11*time.Minute || time.Until(got.Expires) < 5*time.Minute {
		t.Errorf("kept alive until %s, %+v, %v", got.Expires, got.Lease, err)
	}
	// SetTimeout turns the lease's renewal off.
	if _, err := renewer.SetTimeout(t.Context(), leased.ID, 3*time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := renewer.KeepAlive(t.Context(), leased.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get(t.Context(), leased.ID); err != nil || got.Lease.Renewed ||
		time.Until(got.Expires) < 2*time.Hour {
		t.Errorf("a lease changed a set timeout: until %s, %+v, %v", got.Expires, got.Lease, err)
	}
	sb := launch(t, p, func(spec *core.Spec) { spec.Timeout = core.Duration(time.Hour) })
	renewed, err := renewer.SetTimeout(t.Context(), sb.ID, 2*time.Hour)
	if err != nil || time.Until(renewed.Expires) < time.Hour {
		t.Errorf("renewed until %s, %v", renewed.Expires, err)
	}
	if _, err := renewer.SetTimeout(t.Context(), sb.ID, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if ended, err := waiter.WaitSandbox(Patient(t), sb.ID); err != nil || ended.Reason != core.ReasonTimeout {
		t.Errorf("ended as %+v, %v", ended, err)
	}
}

func (s *suite) persistence(t *testing.T) {
	p := s.provider(t)
	stopper, ok := optional[core.Stopper](t, p)
	if !ok {
		return
	}
	wantKind(t, stopper.Stop(t.Context(), launch(t, p, nil).ID, time.Second), core.KindConflict)
	sb := launch(t, p, func(spec *core.Spec) { spec.Persist = true })
	if r := sh(t, p, sb.ID, "echo kept > /root/file; chmod 640 /root/file; rm -f /usr/bin/yes"); r.exit.Code != 0 {
		t.Fatalf("%+v", r)
	}
	for range 2 {
		if err := stopper.Stop(t.Context(), sb.ID, time.Second); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Get(t.Context(), sb.ID); err != nil || got.State != core.StateStopped {
			t.Fatalf("stopped: %+v, %v", got, err)
		}
		_, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"true"}})
		wantKind(t, err, core.KindConflict)
		started, err := stopper.Start(t.Context(), sb.ID)
		if err != nil || started.State != core.StateRunning {
			t.Fatalf("started: %+v, %v", started, err)
		}
		_, err = stopper.Start(t.Context(), sb.ID)
		wantKind(t, err, core.KindConflict)
		if r := sh(
			t, p, sb.ID, "cat /root/file; ls -l /root/file | cut -c1-10; ls /usr/bin/yes 2>/dev/null || echo gone",
		); r.out != "kept\n-rw-r-----\ngone\n" {
			t.Fatalf("after the start: %+v", r)
		}
	}
}

// persistentLifetimes checks that the end of its lifetime stops a persistent sandbox, which keeps its files. Each start
// begins its lifetime again. A sandbox without a lifetime, from its launch or from SetTimeout, keeps none.
func (s *suite) persistentLifetimes(t *testing.T) {
	p := s.provider(t)
	caps := p.Capabilities()
	stopper, stops := p.(core.Stopper)
	waiter, waits := p.(core.Waiter)
	renewer, renews := p.(core.Renewer)
	if !stops || !waits || !renews || !caps.Can(core.CapPersist) {
		return
	}
	const life = time.Hour
	sb := launchWith(t, p, func(spec *core.Spec) { spec.Persist, spec.Timeout = true, core.Duration(life) },
		func(lease *core.Lease) { lease.Expires = lease.Created.Add(life) })
	if r := sh(t, p, sb.ID, "echo kept > /root/file"); r.exit.Code != 0 {
		t.Fatalf("%+v", r)
	}
	// The sandbox may end before the provider reads it for the answer.
	if _, err := renewer.SetTimeout(t.Context(), sb.ID, 10*time.Millisecond); err != nil &&
		!errors.Is(err, core.KindConflict) {
		t.Fatal(err)
	}
	ended, err := waiter.WaitSandbox(t.Context(), sb.ID)
	if err != nil || ended.State != core.StateStopped || ended.Reason != core.ReasonTimeout {
		t.Fatalf("ended: %+v, %v", ended, err)
	}
	if sizer, ok := p.(core.Sizer); ok {
		if size, err := sizer.Size(t.Context(), sb.ID); err != nil || size <= 0 {
			t.Errorf("its files take %s, %v", size, err)
		}
	}
	renewed := func(want bool) {
		t.Helper()
		if _, err := stopper.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		for _, look := range []func() (core.Sandbox, error){
			func() (core.Sandbox, error) { return p.Get(t.Context(), sb.ID) },
			func() (core.Sandbox, error) { return listed(t, p, sb.ID) },
		} {
			got, err := look()
			left := time.Until(got.Expires)
			if err != nil || got.State != core.StateRunning || want && (left < life/2 || left > life) || !want &&
				!got.Expires.IsZero() {
				t.Fatalf("started: %s until %s, %v", got.State, got.Expires, err)
			}
		}
		if r := sh(t, p, sb.ID, "cat /root/file"); r.out != "kept\n" {
			t.Fatalf("after the start: %+v", r)
		}
	}
	renewed(true)
	if got, err := p.Get(t.Context(), sb.ID); err != nil || time.Until(got.Lease.Expires) < life/2 {
		t.Errorf("after the start its lease is %+v, %v", got.Lease, err)
	}
	for range 2 {
		if _, err := renewer.SetTimeout(t.Context(), sb.ID, 0); err != nil {
			t.Fatal(err)
		}
		if err := stopper.Stop(t.Context(), sb.ID, time.Second); err != nil {
			t.Fatal(err)
		}
		renewed(false)
	}
	if !caps.Can(core.CapNoTimeout) {
		return
	}
	sb = launch(t, p, func(spec *core.Spec) { spec.Persist, spec.Timeout = true, core.NoTimeout })
	if !sb.Expires.IsZero() || sb.Spec.Timeout != core.NoTimeout {
		t.Errorf("launched without a lifetime: %+v", sb)
	}
	sh(t, p, sb.ID, "echo kept > /root/file")
	if err := stopper.Stop(t.Context(), sb.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	renewed(false)
}

// listed returns a sandbox from a listing.
func listed(t testing.TB, p core.Provider, id string) (core.Sandbox, error) {
	t.Helper()
	all, err := p.List(t.Context())
	for _, sb := range all {
		if sb.ID == id {
			return sb, err
		}
	}
	return core.Sandbox{}, errors.Join(err, errors.New("it is not listed"))
}

func (s *suite) pause(t *testing.T) {
	p := s.provider(t)
	pauser, ok := optional[core.Pauser](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, nil)
	if err := pauser.Pause(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get(t.Context(), sb.ID); err != nil || got.State != core.StatePaused {
		t.Errorf("paused: %+v, %v", got, err)
	}
	wantKind(t, pauser.Pause(t.Context(), sb.ID), core.KindConflict)
	if err := pauser.Resume(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, pauser.Resume(t.Context(), sb.ID), core.KindConflict)
	if r := sh(t, p, sb.ID, "echo on"); r.out != "on\n" {
		t.Errorf("resumed: %+v", r)
	}
}

func (s *suite) twoCallers(t *testing.T) {
	p, q := s.provider(t), s.provider(t)
	sb := launch(t, p, nil)
	var wg sync.WaitGroup
	for _, caller := range []core.Provider{p, q} {
		wg.Go(func() {
			for range 5 {
				if r := sh(t, caller, sb.ID, "echo hello"); r.out != "hello\n" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	wg.Wait()
	errs := make([]error, 2)
	for i, caller := range []core.Provider{p, q} {
		wg.Go(func() { errs[i] = caller.Terminate(t.Context(), sb.ID) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, core.KindNotFound) && !errors.Is(err, core.KindConflict) {
			t.Error(err)
		}
	}
	if _, err := q.Get(t.Context(), sb.ID); !errors.Is(err, core.KindNotFound) {
		t.Errorf("after both terminated it: %v", err)
	}
}

// endUnderCommand terminates sandboxes with a running command, an entry command and waiting callers. All of them must
// notice. The result depends on timing, so it runs several times.
func (s *suite) endUnderCommand(t *testing.T) {
	p, q := s.provider(t), s.provider(t)
	waiter, waits := p.(core.Waiter)
	for range 3 {
		sb := launch(t, p, func(spec *core.Spec) { spec.Command = []string{"sleep", "600"} })
		process := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		var wg sync.WaitGroup
		if waits {
			wg.Go(func() {
				ended, err := waiter.WaitSandbox(ctx, sb.ID)
				terminated := err == nil && ended.State == core.StateExited && ended.Reason == core.ReasonStopped
				if !terminated && (!errors.Is(err, core.KindNotFound)) {
					t.Errorf("a wait for a sandbox that is terminated returns %s (%s), %v", ended.State, ended.Reason, err)
				}
			})
		}
		if err := q.Terminate(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		// An engine may signal the sandbox before it kills it. Then the entry command's image chooses the signal.
		if exit, err := process.Wait(ctx); err != nil || !slices.Contains([]int{137, 138, 143}, exit.Code) {
			t.Errorf("a command whose sandbox was terminated ended with %+v, %v", exit, err)
		}
		wg.Wait()
	}
}

func (s *suite) watch(t *testing.T) {
	p := s.provider(t)
	watcher, ok := optional[core.Watcher](t, p)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan core.Event)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		defer close(events)
		for event, err := range watcher.Watch(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
		}
	})
	// The start of the watch is not reported, so sandboxes launch and end until the watch has seen both for one.
	limit := time.After(deadline)
	for {
		sb, err := p.Launch(
			ctx, core.Spec{Name: core.NewName(), Image: first(p.Capabilities().Images)},
			core.Lease{Owner: core.CurrentOwner("suite"), Created: time.Now()}, nil,
		)
		if err != nil {
			t.Fatal(err)
		}
		came, went := false, false
		patience := time.NewTimer(2 * time.Second)
		for !went {
			select {
			case event := <-events:
				if event.Type != core.EventState || event.Sandbox != sb.ID {
					continue
				}
				if event.State == core.StateRunning {
					came = true
					if err := p.Terminate(ctx, sb.ID); err != nil {
						t.Fatal(err)
					}
				}
				went = came && !event.State.Live()
			case <-patience.C:
				went = true
			case <-limit:
				t.Fatal("the watcher sees nothing")
			}
		}
		patience.Stop()
		if err := p.Terminate(ctx, sb.ID); err != nil && !errors.Is(err, core.KindNotFound) {
			t.Fatal(err)
		}
		if came {
			return
		}
	}
}
