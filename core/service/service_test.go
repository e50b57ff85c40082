package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// shelf is a provider that only keeps sandboxes.
type shelf struct {
	name  string
	caps  core.Capabilities
	lacks core.Capability // found out by Check
	down  error
	mu    sync.Mutex
	boxes []core.Sandbox
}

func (p *shelf) Name() string { return p.name }

func (p *shelf) Capabilities() core.Capabilities {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.caps
}

func (p *shelf) Close() error { return nil }

func (p *shelf) Check(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caps.Has = slices.DeleteFunc(slices.Clone(p.caps.Has), func(c core.Capability) bool { return c == p.lacks })
	return p.down
}

func (p *shelf) factory(prefix string) core.Factory {
	return core.Factory{Name: p.name, IDPrefix: prefix, Open: func() (core.Provider, error) { return p, nil }}
}

func (p *shelf) Launch(_ context.Context, spec core.Spec, lease core.Lease, _ core.ProgressFunc) (core.Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sb := core.Sandbox{
		ID: fmt.Sprintf("%s-%d", p.name, len(p.boxes)), Name: spec.Name, Provider: p.name, State: core.StateRunning,
		Spec: spec.Redacted(), Lease: lease, Created: lease.Created,
	}
	p.boxes = append(p.boxes, sb)
	return sb, nil
}

func (p *shelf) Get(_ context.Context, id string) (core.Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sb := range p.boxes {
		if sb.ID == id {
			return sb, nil
		}
	}
	return core.Sandbox{}, core.Errorf(core.KindNotFound, "get", id, "not here")
}

func (p *shelf) List(context.Context) ([]core.Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]core.Sandbox(nil), p.boxes...), p.down
}

func (p *shelf) Exec(context.Context, string, core.ExecSpec) (core.Process, error) {
	return nil, core.Errorf(core.KindUnsupported, "exec", "", "a shelf runs nothing")
}

func (p *shelf) Terminate(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, sb := range p.boxes {
		if sb.ID == id {
			p.boxes = append(p.boxes[:i:i], p.boxes[i+1:]...)
			return nil
		}
	}
	return core.Errorf(core.KindNotFound, "terminate", id, "not here")
}

// service returns a service over two shelves, one and two.
func service(t *testing.T, opts Options) (*Service, *shelf, *shelf) {
	t.Helper()
	caps := core.Capabilities{
		Has: []core.Capability{core.CapMemory, core.CapTimeout, core.CapNetAll}, Images: []string{"host"},
	}
	one, two := &shelf{name: "one", caps: caps}, &shelf{name: "two", caps: caps}
	two.caps.Has = append([]core.Capability{core.CapGPU}, caps.Has...)
	two.caps.GPUs = map[string]int{"H100": 8}
	opts.Factories = []core.Factory{one.factory("one-"), two.factory("two-")}
	s := New(opts)
	t.Cleanup(func() { _ = s.Close() })
	return s, one, two
}

func TestPlacement(t *testing.T) {
	s, one, _ := service(t, Options{})
	for _, test := range []struct {
		spec   core.Spec
		chosen string
	}{
		{core.Spec{}, "one"},
		{core.Spec{Provider: "two"}, "two"},
		{core.Spec{GPU: core.GPU{Type: "H100", Count: 8}}, "two"},
		{core.Spec{GPU: core.GPU{Type: "H100", Count: 9}}, ""},
		{core.Spec{GPU: core.GPU{Type: "T4", Count: 1}}, ""},
		{core.Spec{Disk: core.GiB}, ""},
		{core.Spec{Image: "other"}, ""},
	} {
		placement, err := s.Sandboxes.Explain(t.Context(), test.spec)
		if err != nil || placement.Chosen != test.chosen {
			t.Errorf("%+v goes to %q, %v; want %q", test.spec, placement.Chosen, err, test.chosen)
		}
	}
	_, err := s.Sandboxes.Launch(t.Context(), core.Spec{Disk: core.GiB}, LaunchOptions{})
	if !errors.Is(err, core.KindUnsupported) || !strings.Contains(err.Error(), "disk") {
		t.Errorf("a disk that no provider offers: %v", err)
	}
	if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{Provider: "three"}, LaunchOptions{}); !errors.Is(
		err, core.KindUsage,
	) {
		t.Errorf("an unknown provider: %v", err)
	}
	one.caps.Has, one.lacks = append(one.caps.Has, core.CapDisk), core.CapDisk
	if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{Provider: "one", Disk: core.GiB}, LaunchOptions{}); !errors.Is(
		err, core.KindUnsupported,
	) || core.HintOf(err) != "sb doctor shows the reason" {
		t.Errorf("a disk that turns out not to be offered: %v, %s", err, core.HintOf(err))
	}
	one.down = core.Errorf(core.KindUnavailable, "check", "", "it is down").WithHint("start it")
	if placement, err := s.Sandboxes.Explain(t.Context(), core.Spec{}); err != nil || placement.Chosen != "two" {
		t.Errorf("with one down it goes to %+v, %v", placement, err)
	}
	if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{Provider: "one"}, LaunchOptions{}); !errors.Is(
		err, core.KindUnavailable,
	) || core.HintOf(err) != "start it" {
		t.Errorf("at the one that is down: %v, %s", err, core.HintOf(err))
	}
}

func TestResolve(t *testing.T) {
	s, one, two := service(t, Options{})
	one.boxes = []core.Sandbox{
		{ID: "one-aaa1", Name: "dev", Provider: "one", State: core.StateExited, Created: time.Unix(1, 0)},
		{ID: "one-aab2", Name: "dev", Provider: "one", State: core.StateRunning, Created: time.Unix(2, 0)},
	}
	two.boxes = []core.Sandbox{
		{ID: "two-x", Name: "dev", Provider: "two", State: core.StateRunning},
		{ID: "two-y", Name: "other", Provider: "two", State: core.StateRunning},
	}
	for ref, want := range map[string]string{
		"one-aaa1": "one-aaa1", "one-aab": "one-aab2", "dev": "one-aab2", "two/dev": "two-x", "other": "two-y",
		"two/two-y": "two-y", "one/one-aaa1": "one-aaa1",
	} {
		if sb, err := s.Sandboxes.Resolve(t.Context(), ref); err != nil || sb.ID != want {
			t.Errorf("%q is %q, %v; want %q", ref, sb.ID, err, want)
		}
	}
	for ref, kind := range map[string]core.Kind{
		"one-aa": core.KindConflict, "nothing": core.KindNotFound, "one/other": core.KindNotFound,
		"three/dev": core.KindUsage, "": core.KindUsage, "one-zzz": core.KindNotFound, "one/": core.KindNotFound,
	} {
		if sb, err := s.Sandboxes.Resolve(t.Context(), ref); !errors.Is(err, kind) {
			t.Errorf("%q is %+v, %v; want an error of kind %v", ref, sb, err, kind)
		}
	}
	if _, err := s.Sandboxes.Resolve(t.Context(), "othr"); !strings.Contains(core.HintOf(err), "other") {
		t.Errorf("the hint for a slip is %q", core.HintOf(err))
	}
}

// A reference by id, with its provider or without, does not need a list of sandboxes.
func TestAnIDIsAskedFor(t *testing.T) {
	s, one, _ := service(t, Options{})
	one.boxes = []core.Sandbox{{ID: "one-0", Name: "dev", Provider: "one", State: core.StateRunning}}
	one.down = core.Errorf(core.KindUnavailable, "list", "", "it cannot list")
	for _, ref := range []string{"one-0", "one/one-0"} {
		if sb, err := s.Sandboxes.Resolve(t.Context(), ref); err != nil || sb.Name != "dev" {
			t.Errorf("%s: %+v, %v", ref, sb, err)
		}
	}
}

func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"dev", "one/dev", "one-", "/", "a/b/c", "\x00", strings.Repeat("x", 300)} {
		f.Add(seed)
	}
	shelf := &shelf{name: "one", boxes: []core.Sandbox{{ID: "one-a", Name: "dev", Provider: "one"}}}
	s := New(Options{Factories: []core.Factory{shelf.factory("one-")}})
	f.Fuzz(func(t *testing.T, ref string) {
		if _, err := s.Sandboxes.Resolve(t.Context(), ref); err != nil && core.KindOf(err) == core.KindInternal {
			t.Errorf("%q: %v", ref, err)
		}
	})
}

func TestOneProviderDownHidesNoOther(t *testing.T) {
	s, one, two := service(t, Options{})
	one.down = core.Errorf(core.KindUnavailable, "list", "", "it is down")
	two.boxes = []core.Sandbox{{ID: "two-x", Name: "dev", Provider: "two", State: core.StateRunning}}
	listing, err := s.Sandboxes.List(t.Context(), core.ListFilter{})
	if err != nil || len(listing.Sandboxes) != 1 || len(listing.Failures) != 1 || listing.Failures[0].Provider != "one" {
		t.Errorf("%+v, %v", listing, err)
	}
}

// A provider that is not installed has no sandboxes. It is a failure only if the filter names it.
func TestListOfAnAbsentProvider(t *testing.T) {
	one := &absentShelf{shelf{name: "one", down: core.Errorf(core.KindUnavailable, "check", "", "it is not installed")}}
	s := New(Options{Factories: []core.Factory{{Name: "one", Open: func() (core.Provider, error) { return one, nil }}}})
	t.Cleanup(func() { _ = s.Close() })
	for filter, failures := range map[string]int{"": 0, "one": 1} {
		listing, err := s.Sandboxes.List(t.Context(), core.ListFilter{Provider: filter})
		if err != nil || len(listing.Failures) != failures {
			t.Errorf("%q: %+v, %v", filter, listing, err)
		}
	}
}

// absentShelf is a provider that is not installed.
type absentShelf struct{ shelf }

func (p *absentShelf) List(context.Context) ([]core.Sandbox, error) { return nil, nil }

func TestQuotas(t *testing.T) {
	s, _, _ := service(
		t, Options{Quotas: Quotas{MaxSandboxes: 1, MaxMemory: core.GiB, MaxLifetime: core.Duration(time.Hour)}},
	)
	for name, spec := range map[string]core.Spec{
		"memory": {Memory: 2 * core.GiB}, "lifetime": {Timeout: core.Duration(2 * time.Hour)},
	} {
		if _, err := s.Sandboxes.Launch(t.Context(), spec, LaunchOptions{}); !errors.Is(err, core.KindExhausted) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sb, err := s.Sandboxes.Launch(t.Context(), core.Spec{}, LaunchOptions{Bound: true})
	if err != nil || sb.Spec.Memory != core.GiB || sb.Spec.Timeout != core.Duration(time.Hour) || !sb.Lease.Bound ||
		sb.Lease.Expires.IsZero() || sb.Name == "" {
		t.Fatalf("%+v, %v", sb, err)
	}
	if sb.Lease.Owner.Gone() {
		t.Error("this process is gone, it is said")
	}
	if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{}, LaunchOptions{}); !errors.Is(err, core.KindExhausted) {
		t.Errorf("a second sandbox: %v", err)
	}
}

// meeting lets launches pass only together, so that the check of each comes before any other sandbox exists.
type meeting struct {
	*shelf
	all sync.WaitGroup
}

func (m *meeting) Launch(
	ctx context.Context, spec core.Spec, lease core.Lease, report core.ProgressFunc,
) (core.Sandbox, error) {
	m.all.Done()
	m.all.Wait()
	return m.shelf.Launch(ctx, spec, lease, report)
}

func TestQuotaHoldsWhenSeveralLaunchAtOnce(t *testing.T) {
	const launches = 5
	provider := &meeting{shelf: &shelf{name: "one", caps: core.Capabilities{Images: []string{"host"}}}}
	provider.all.Add(launches)
	factory := core.Factory{Name: "one", Open: func() (core.Provider, error) { return provider, nil }}
	var wg sync.WaitGroup
	for range launches {
		s := New(Options{Factories: []core.Factory{factory}, Quotas: Quotas{MaxSandboxes: 2}})
		wg.Go(func() {
			if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{}, LaunchOptions{}); err != nil &&
				!errors.Is(err, core.KindExhausted) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(provider.boxes); n > 2 {
		t.Errorf("%d sandboxes, and the quota is 2", n)
	}
}

func TestANameIsNotLookedUpBehindAProviderThatIsDown(t *testing.T) {
	s, one, two := service(t, Options{})
	one.down = core.Errorf(core.KindUnavailable, "list", "", "it is down")
	two.boxes = []core.Sandbox{{ID: "two-x", Name: "dev", Provider: "two", State: core.StateRunning}}
	if sb, err := s.Sandboxes.Resolve(t.Context(), "dev"); !errors.Is(err, core.KindUnavailable) ||
		!strings.Contains(core.HintOf(err), "two/dev") {
		t.Errorf("it is %+v, %v, %s", sb, err, core.HintOf(err))
	}
	for _, ref := range []string{"two/dev", "two-x"} {
		if sb, err := s.Sandboxes.Resolve(t.Context(), ref); err != nil || sb.ID != "two-x" {
			t.Errorf("%s is %+v, %v", ref, sb, err)
		}
	}
}

func TestHistoryThatIsCanceledSaysSo(t *testing.T) {
	s, _, _ := service(t, Options{StateDir: t.TempDir()})
	if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{}, LaunchOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range s.Records.History(ctx, HistoryFilter{}) {
		last = err
	}
	if !errors.Is(last, core.KindCanceled) {
		t.Errorf("it ended with %v", last)
	}
}

// A reader sees each record once, even if the log is rotated during the read.
func TestHistoryOverARotation(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := service(t, Options{StateDir: dir})
	name := filepath.Join(dir, auditFile)
	line := func(op string) []byte {
		return []byte(`{"op":"` + op + `","time":"2026-01-02T00:00:00Z","result":"ok"}` + "\n")
	}
	if err := errors.Join(
		os.WriteFile(name+".1", line("one"), 0o600), os.WriteFile(name, line("two"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	var ops []string
	for record, err := range s.Records.History(t.Context(), HistoryFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ops = append(ops, record.Op); len(ops) == 1 {
			s.audit.rotate()
			if err := os.WriteFile(name, line("three"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []string{"one", "two"}; !slices.Equal(ops, want) {
		t.Errorf("read %q, want %q", ops, want)
	}
}

// Lines that are no records are counted and their file is named, once. The records around them are there.
func TestDamagedAuditLinesAreNamed(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := service(t, Options{StateDir: dir})
	name := filepath.Join(dir, auditFile)
	line := func(op string) string {
		return `{"op":"` + op + `","time":"2026-01-02T00:00:00Z","result":"ok"}` + "\n"
	}
	older := line("one") + "{}\n" + `{"op":"lau` + "\n" + line("two")
	newer := line("three") + line("four")[:20] // an incomplete line
	if err := errors.Join(
		os.WriteFile(name+".1", []byte(older), 0o600), os.WriteFile(name, []byte(newer), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	var ops, damaged []string
	for record, err := range s.Records.History(t.Context(), HistoryFilter{}) {
		if err != nil {
			damaged = append(damaged, err.Error())
			continue
		}
		ops = append(ops, record.Op)
	}
	if want := []string{"one", "two", "three"}; !slices.Equal(ops, want) {
		t.Errorf("read %q, want %q", ops, want)
	}
	if len(damaged) != 1 || !strings.Contains(damaged[0], name+".1 is damaged: 2 of its lines") ||
		!strings.Contains(damaged[0], "line 2") {
		t.Errorf("%q", damaged)
	}
	// The next record ends the line that was cut, and is whole.
	if err := s.audit.append(&AuditRecord{Time: time.Now(), Op: "five", Result: "ok"}); err != nil {
		t.Fatal(err)
	}
	ops = nil
	for record, err := range s.Records.History(t.Context(), HistoryFilter{Op: "five"}) {
		if err == nil {
			ops = append(ops, record.Op)
		}
	}
	if len(ops) != 1 {
		t.Errorf("after a cut line: %q", ops)
	}
	if report, err := s.Records.Cost(t.Context(), CostFilter{}); err != nil || len(report.Warnings) != 2 {
		t.Errorf("the cost: %q, %v", report.Warnings, err)
	}
}

func TestFollowerMissesNothingOverARotation(t *testing.T) {
	log, other := &auditLog{dir: t.TempDir(), pid: 1}, 2
	follower := &auditFollower{log: log}
	defer func() { follower.close() }()
	var got []string
	collect := func(e core.Event, _ error) bool {
		got = append(got, e.Op)
		return true
	}
	write := func(op string) {
		t.Helper()
		if err := log.append(&AuditRecord{Time: time.Now(), Op: op, Result: "ok", PID: other}); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	follower.open(io.SeekEnd)
	write("a")
	log.rotate()
	// The new file is longer than the old one was when it was read last.
	write("b")
	write("c")
	if !follower.catchUp(collect) {
		t.Error("it does not go on")
	}
	write("d")
	if !follower.catchUp(collect) {
		t.Error("it does not go on")
	}
	if want := "[a b c d]"; fmt.Sprint(got) != want {
		t.Errorf("it saw %v, want %s", got, want)
	}
}

func TestAudit(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := service(t, Options{StateDir: dir, Actor: "test"})
	sb, err := s.Sandboxes.Launch(
		t.Context(),
		core.Spec{
			Name: "dev", Env: map[string]string{"A": "b"},
			Secrets: []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("hunter2")}},
		},
		LaunchOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Execs.Start(
		t.Context(), "dev",
		core.ExecSpec{Command: []string{"x"}, Secrets: []core.Secret{{Name: "T", Value: core.NewSecretValue("hunter2")}}},
	); err == nil {
		t.Fatal("a shelf ran something")
	}
	if err := s.Sandboxes.Terminate(t.Context(), "dev"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	if err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("%v: %s", err, text)
	}
	var got []string
	for record, err := range s.Records.History(t.Context(), HistoryFilter{Sandbox: "dev"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record.Op+" "+record.Result+" "+record.Actor)
		if record.Sandbox != sb.ID {
			t.Errorf("a record of %q", record.Sandbox)
		}
	}
	if want := "[launch ok test exec unsupported test terminate ok test]"; fmt.Sprint(got) != want {
		t.Errorf("the history is %v, want %s", got, want)
	}
}

func TestAuditLinesOfManyWritersStayWhole(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			log := &auditLog{dir: dir, pid: w}
			for range 50 {
				if err := log.append(&AuditRecord{
					Time: time.Now(), Op: "x", Result: "ok", PID: w, Args: map[string]any{"long": strings.Repeat("y", 5000)},
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s, _, _ := service(t, Options{StateDir: dir})
	count := 0
	for _, err := range s.Records.History(t.Context(), HistoryFilter{Op: "x"}) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != 400 {
		t.Errorf("%d records of 400", count)
	}
}

func TestEvents(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := service(t, Options{StateDir: dir})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	events := make(chan core.Event)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(events)
		for event, err := range s.Records.Events(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			events <- event
		}
	})
	// The subscription gets events of this process and lines that another process appends.
	theirs := &auditLog{dir: dir, pid: -1}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var own, other bool
	for !own || !other {
		select {
		case event, ok := <-events:
			if !ok {
				t.Fatalf("the events ended: own %v, other %v", own, other)
			}
			own = own || event.Type == core.EventState && event.Provider == "one"
			other = other || event.Type == core.EventOperation && event.Op == "theirs"
		case <-tick.C:
			// In a loop, because the subscription begins at an unknown time.
			if err := theirs.append(&AuditRecord{Time: time.Now(), Op: "theirs", Result: "ok", PID: -1}); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if _, err := s.Sandboxes.Launch(ctx, core.Spec{}, LaunchOptions{}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
		}
	}
	cancel()
	for range events {
	}
	wg.Wait()
}

func TestBrokerDropsWhoDoesNotRead(t *testing.T) {
	b := newBroker()
	sub := b.subscribe()
	for range subscriberBuffer + 10 {
		b.publish(core.Event{Type: core.EventProgress}) // lossy: never waits
	}
	select {
	case <-sub.done:
		t.Error("progress ended a subscription")
	default:
	}
	b.publish(core.Event{Type: core.EventState}) // waits, then gives up
	select {
	case <-sub.lagged:
	default:
		t.Error("a subscriber that missed a state change believes itself up to date")
	}
}

func TestKindOf(t *testing.T) {
	for want, err := range map[core.Kind]error{
		core.KindTimeout: context.DeadlineExceeded, core.KindCanceled: fmt.Errorf("x: %w", context.Canceled),
		core.KindNotFound: os.ErrNotExist,
		core.KindConflict: os.ErrExist, core.KindUnauthorized: os.ErrPermission, core.KindInternal: errors.New("x"),
		core.KindExhausted: fmt.Errorf("y: %w", core.Errorf(core.KindExhausted, "", "", "z")),
	} {
		if got := core.KindOf(err); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
	if err := core.Wrap("op", "subject", core.Errorf(core.KindNotFound, "", "", "cause").
		WithHint("hint")); err.Error() != "subject: cause" || core.HintOf(err) != "hint" ||
		!errors.Is(err, core.KindNotFound) {
		t.Errorf("wrapped: %v", err)
	}
}

// If a provider cannot keep a running sandbox but can keep its files, the error has a hint.
func TestWhatElseCanBeKept(t *testing.T) {
	s, one, two := service(t, Options{})
	one.boxes = []core.Sandbox{{ID: "one-aaa1", Name: "dev", Provider: "one", State: core.StateRunning}}
	one.caps, two.caps = core.Capabilities{Has: []core.Capability{core.CapSnapshots}}, core.Capabilities{
		Has: []core.Capability{core.CapCheckpoint},
	}
	_, err := s.Sandboxes.Checkpoint(t.Context(), "dev", "kept")
	if hint := core.HintOf(err); !errors.Is(err, core.KindUnsupported) || !strings.Contains(hint, "two") ||
		!strings.Contains(hint, "sb snapshot") {
		t.Errorf("a checkpoint: %v (%s)", err, hint)
	}
	if _, err = s.Sandboxes.Fork(t.Context(), "dev", ForkOptions{}); !errors.Is(err, core.KindUnsupported) ||
		!strings.Contains(core.HintOf(err), "sb snapshot") {
		t.Errorf("a fork: %v (%s)", err, core.HintOf(err))
	}
	one.caps = core.Capabilities{}
	if _, err = s.Sandboxes.Checkpoint(t.Context(), "dev", "kept"); strings.Contains(core.HintOf(err), "sb snapshot") {
		t.Errorf("without snapshots: %s", core.HintOf(err))
	}
}
