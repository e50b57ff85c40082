package tools

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// maxFailedLaunches bounds the failed launches that the server remembers for their callers; it forgets the oldest.
const maxFailedLaunches = 100

// launching has the launches that outlasted the soft deadline of their call, and failed ones whose caller may not know
// that yet.
type launching struct {
	mu   sync.Mutex
	list []*pendingLaunch
}

// pendingLaunch is a launch in progress. It is safe for concurrent use.
type pendingLaunch struct {
	steps

	owner, name, provider string
	started               time.Time
	cancel                context.CancelFunc
	done                  chan struct{} // closed when sb and err are known
	sb                    core.Sandbox
	err                   error
}

// progress returns the newest step of the launch.
func (p *pendingLaunch) progress() string { return cmp.Or(p.latest(), "starting") }

// over reports whether the launch has ended.
func (p *pendingLaunch) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// info describes the sandbox of a launch in progress.
func (p *pendingLaunch) info() SandboxInfo {
	return SandboxInfo{
		Name: p.name, Provider: p.provider, State: string(core.StateCreating), Created: p.started,
		Reason: "still launching: " + p.progress(),
	}
}

// stillLaunching is the error of a call that needs the sandbox of a launch in progress.
type stillLaunching struct{ launch *pendingLaunch }

// Error implements error.
func (e *stillLaunching) Error() string {
	return "the sandbox " + e.launch.name + " is still launching: " + e.launch.progress()
}

// unavailable returns the error for a call that needs the sandbox now.
func (p *pendingLaunch) unavailable() error {
	return core.Errorf(core.KindTimeout, "launch", p.name, "%w", &stillLaunching{p}).
		WithHint("the launch continues; sandbox_list with sandbox %s shows when it runs", p.name)
}

// add records a launch until it has ended without an error.
func (l *launching) add(p *pendingLaunch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(other *pendingLaunch) bool {
		return other.owner == p.owner && other.name == p.name && other.over()
	})
	l.list = append(l.list, p)
	failed := 0
	for _, other := range slices.Backward(slices.Clone(l.list)) {
		if !other.over() {
			continue
		}
		if failed++; failed > maxFailedLaunches {
			l.list = slices.DeleteFunc(l.list, func(p *pendingLaunch) bool { return p == other })
		}
	}
}

func (l *launching) remove(p *pendingLaunch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(other *pendingLaunch) bool { return other == p })
}

// of returns an owner's launches, oldest first.
func (l *launching) of(owner string) []*pendingLaunch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.list), func(p *pendingLaunch) bool { return p.owner != owner })
}

// launching returns the caller's launch of a name, or nil.
func (c *Call) launching(name string) *pendingLaunch {
	for _, p := range slices.Backward(c.Host.launching.of(c.Identity.Label())) {
		if p.name == name || p.name == c.namePrefix()+name {
			return p
		}
	}
	return nil
}

// background runs a launch until it ends or the soft deadline passes. After the deadline it continues without the call,
// and the error is a *stillLaunching. A request that the client cancels ends the launch.
func (c *Call) background(
	ctx context.Context, spec core.Spec,
	launch func(ctx context.Context, progress func(step string)) (core.Sandbox, error),
) (core.Sandbox, error) {
	// The launch has the caller's identity, but not its end.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.Host.Context, cancel)
	p := &pendingLaunch{
		owner: c.Identity.Label(), name: spec.Name, provider: spec.Provider,
		started: time.Now().UTC(), cancel: cancel, done: make(chan struct{}),
	}
	p.attach(func(step string) { c.Progress(ctx, step) })
	c.Host.launching.add(p)
	c.Host.Go(func() {
		defer cancel()
		defer stop()
		p.sb, p.err = launch(running, p.report)
		close(p.done)
		if p.err == nil {
			c.Host.launching.remove(p)
		}
	})
	deadline := time.NewTimer(c.Host.Options.SoftDeadline)
	defer deadline.Stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		cancel()
		<-p.done
	case <-deadline.C:
		p.attach(nil)
		return core.Sandbox{}, p.unavailable()
	}
	c.Host.launching.remove(p)
	return p.sb, p.err
}

// abandon ends a launch in progress, or the sandbox that it made meanwhile.
func (c *Call) abandon(ctx context.Context, p *pendingLaunch) error {
	p.cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		return core.Wrap("terminate", p.name, ctx.Err())
	}
	c.Host.launching.remove(p)
	if p.err == nil {
		return c.terminate(ctx, p.sb)
	}
	return nil
}

// pendingOf returns the launch that an error reports as still in progress.
func pendingOf(err error) (*pendingLaunch, bool) {
	if e, ok := errors.AsType[*stillLaunching](err); ok {
		return e.launch, true
	}
	return nil, false
}
