package fake

import (
	"context"
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Launch implements core.Provider.
func (p *Provider) Launch(
	ctx context.Context, spec core.Spec, lease core.Lease, progress core.ProgressFunc,
) (core.Sandbox, error) {
	b := newBox(p, spec, lease)
	furnish := b.furnish
	if spec.Checkpoint != "" {
		from, err := p.keptAs(spec.Checkpoint)
		if err != nil {
			return core.Sandbox{}, err
		}
		furnish = func() error { b.tree = from.tree.clone(); return nil }
	}
	if spec.Snapshot != "" {
		from, err := p.snapshot(spec.Snapshot)
		if err != nil {
			return core.Sandbox{}, err
		}
		furnish = func() error { b.tree = from.tree.clone(); return nil }
	}
	if err := p.reserve(b); err != nil {
		return core.Sandbox{}, err
	}
	fail := func(err error) (core.Sandbox, error) {
		b.end(core.StateFailed, core.ReasonLaunch, err.Error(), nil)
		b.wait()
		p.forget(b)
		return core.Sandbox{}, core.Wrap("fake.launch", spec.Name, err)
	}
	for _, step := range []string{"preparing " + spec.Image, "starting"} {
		if progress != nil {
			progress(core.Progress{Step: step})
		}
	}
	if err := p.faults.meet(ctx, OpLaunch); err != nil {
		return fail(err)
	}
	if err := furnish(); err != nil {
		return fail(err)
	}
	b.base = b.tree.clone()
	if err := b.begin(); err != nil {
		return fail(err)
	}
	return b.get(), nil
}

// reserve adds a sandbox whose name is free. A dead sandbox does not keep its name.
func (p *Provider) reserve(b *box) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.order {
		if sb := other.get(); sb.Name == b.sandbox.Name && sb.State.Live() {
			return core.Errorf(core.KindConflict, "fake.launch", sb.Name, "there is a sandbox %q already", sb.Name).
				WithHint("choose another name, or remove it with: sb terminate %s", sb.Name)
		}
	}
	p.boxes[b.sandbox.ID] = b
	p.order = append(p.order, b)
	return nil
}

// forget removes a sandbox and reports whether it existed.
func (p *Provider) forget(b *box) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := b.sandbox.ID
	_, there := p.boxes[id]
	delete(p.boxes, id)
	p.order = slices.DeleteFunc(p.order, func(other *box) bool { return other == b })
	return there
}

// Get implements core.Provider.
func (p *Provider) Get(ctx context.Context, id string) (core.Sandbox, error) {
	if err := p.faults.meet(ctx, OpGet); err != nil {
		return core.Sandbox{}, err
	}
	b, err := p.box(id)
	if err != nil {
		return core.Sandbox{}, err
	}
	return b.get(), nil
}

// List implements core.Provider.
func (p *Provider) List(ctx context.Context) ([]core.Sandbox, error) {
	if err := p.faults.meet(ctx, OpList); err != nil {
		return nil, err
	}
	sandboxes := []core.Sandbox{}
	for _, b := range p.all() {
		sandboxes = append(sandboxes, b.get())
	}
	return sandboxes, nil
}

// FindName implements core.Finder.
func (p *Provider) FindName(ctx context.Context, name string) (core.Sandbox, error) {
	if err := p.faults.meet(ctx, OpFind); err != nil {
		return core.Sandbox{}, err
	}
	var found core.Sandbox
	for _, b := range p.all() {
		sb := b.get()
		if sb.Name == name && (found.ID == "" || sb.State.Live() || !found.State.Live()) {
			found = sb
		}
	}
	if found.ID == "" {
		return found, core.Errorf(core.KindNotFound, "fake.find", name, "there is no sandbox %q", name)
	}
	return found, nil
}

// Terminate implements core.Provider.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	if err := p.faults.meet(ctx, OpTerminate); err != nil {
		return err
	}
	b, err := p.box(id)
	if err != nil {
		return err
	}
	b.end(core.StateExited, core.ReasonStopped, "it was terminated", nil)
	b.wait()
	if !p.forget(b) {
		return core.Errorf(core.KindNotFound, "fake.terminate", id, "there is no sandbox %q", id)
	}
	return nil
}

// WaitSandbox implements core.Waiter.
func (p *Provider) WaitSandbox(ctx context.Context, id string) (core.Sandbox, error) {
	b, err := p.box(id)
	if err != nil {
		return core.Sandbox{}, err
	}
	for {
		sb, changed := b.current()
		if !sb.State.Live() || sb.State == core.StateStopped {
			return b.get(), nil
		}
		select {
		case <-ctx.Done():
			return sb, core.Wrap("fake.wait", sb.Name, ctx.Err())
		case <-changed:
		}
	}
}

// Stop implements core.Stopper.
func (p *Provider) Stop(ctx context.Context, id string, grace time.Duration) error {
	if err := p.faults.meet(ctx, OpStop); err != nil {
		return err
	}
	b, err := p.box(id)
	if err != nil {
		return err
	}
	sb := b.get()
	if sb.State != core.StateRunning && sb.State != core.StatePaused {
		return b.notRunning()
	}
	if !sb.Spec.Persist {
		return core.Errorf(
			core.KindConflict, "fake.stop", sb.Name, "the sandbox is not persistent: stopping would lose its files",
		).
			WithHint("sb terminate %s removes it", sb.Name)
	}
	b.mu.Lock()
	procs := slices.Clone(b.procs)
	b.mu.Unlock()
	patience, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for _, proc := range procs {
		_ = proc.signal(sigTerm) // a command that has ended needs none
	}
	for _, proc := range procs {
		select {
		case <-proc.done:
		case <-patience.Done():
		}
	}
	b.end(core.StateStopped, core.ReasonStopped, "it was stopped", nil)
	b.wait()
	return nil
}

// Start implements core.Stopper.
func (p *Provider) Start(ctx context.Context, id string) (core.Sandbox, error) {
	if err := p.faults.meet(ctx, OpStart); err != nil {
		return core.Sandbox{}, err
	}
	b, err := p.box(id)
	if err != nil {
		return core.Sandbox{}, err
	}
	if err := b.revive(); err != nil {
		return core.Sandbox{}, err
	}
	if err := b.begin(); err != nil {
		b.end(core.StateFailed, core.ReasonLaunch, err.Error(), nil)
		return core.Sandbox{}, err
	}
	return b.get(), nil
}

// revive prepares a sandbox for its start. Of concurrent starts, only one succeeds.
func (b *box) revive() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	sb := b.sandbox
	switch {
	case !sb.Spec.Persist:
		return core.Errorf(core.KindConflict, "fake.start", sb.Name, "the sandbox is not persistent: its files were not "+
			"kept").
			WithHint("launch it with --persist")
	case sb.State != core.StateStopped && sb.State != core.StateLost && sb.State != core.StateExited:
		return core.Errorf(core.KindConflict, "fake.start", sb.Name, "the sandbox is %s", sb.State)
	}
	b.become(core.StateCreating, "", "")
	return nil
}

// Pause implements core.Pauser.
func (p *Provider) Pause(ctx context.Context, id string) error {
	return p.turn(ctx, OpPause, id, core.StateRunning, core.StatePaused)
}

// Resume implements core.Pauser.
func (p *Provider) Resume(ctx context.Context, id string) error {
	return p.turn(ctx, OpResume, id, core.StatePaused, core.StateRunning)
}

func (p *Provider) turn(ctx context.Context, op Op, id string, from, to core.State) error {
	if err := p.faults.meet(ctx, op); err != nil {
		return err
	}
	b, err := p.box(id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sandbox.State != from {
		return core.Errorf(core.KindConflict, "fake."+
			string(op), b.sandbox.Name, "the sandbox is %s, not %s", b.sandbox.State, from)
	}
	b.become(to, "", "")
	return nil
}

// SetTimeout implements core.Renewer.
func (p *Provider) SetTimeout(ctx context.Context, id string, timeout time.Duration) (core.Sandbox, error) {
	if err := p.faults.meet(ctx, OpTimeout); err != nil {
		return core.Sandbox{}, err
	}
	b, err := p.box(id)
	if err != nil {
		return core.Sandbox{}, err
	}
	b.mu.Lock()
	state := b.sandbox.State
	if state == core.StateRunning || state == core.StatePaused {
		b.expireIn(timeout)
		b.sandbox.Lease.Renewed, b.endless = false, timeout == 0
	}
	b.mu.Unlock()
	if state != core.StateRunning && state != core.StatePaused {
		return core.Sandbox{}, b.notRunning()
	}
	return b.get(), nil
}

// KeepAlive implements core.Renewer.
func (p *Provider) KeepAlive(ctx context.Context, id string, lease time.Duration) error {
	if err := p.faults.meet(ctx, OpTimeout); err != nil {
		return err
	}
	b, err := p.box(id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sandbox.Lease.Renewed && (b.sandbox.State == core.StateRunning || b.sandbox.State == core.StatePaused) {
		b.endIn(lease)
	}
	return nil
}

// GivenSecrets implements core.SecretTeller.
func (p *Provider) GivenSecrets(_ context.Context, id string) ([]core.Secret, error) {
	b, err := p.box(id)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.secrets), nil
}

// Size implements core.Sizer.
func (p *Provider) Size(_ context.Context, id string) (core.Bytes, error) {
	b, err := p.box(id)
	if err != nil {
		return 0, err
	}
	return core.Bytes(b.tree.size()), nil
}

// Stats implements core.StatsReader. A command counts as using a processor for its whole run time.
func (p *Provider) Stats(ctx context.Context, id string) (core.Stats, error) {
	if err := p.faults.meet(ctx, OpStats); err != nil {
		return core.Stats{}, err
	}
	b, err := p.box(id)
	if err != nil {
		return core.Stats{}, err
	}
	sb := b.get()
	if sb.State != core.StateRunning && sb.State != core.StatePaused {
		return core.Stats{}, b.notRunning()
	}
	stats := core.Stats{
		Sandbox: id, Time: p.opts.Now(), Memory: ownMemory, MemoryLimit: sb.Spec.Memory, CPULimit: sb.Spec.CPU,
		DiskLimit: sb.Spec.Disk,
		Disk:      core.Bytes(b.tree.size()),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, denial := range b.denials {
		stats.Denied += denial.Count
	}
	for _, proc := range b.procs {
		if proc.alive() {
			stats.Processes++
			stats.CPU += stats.Time.Sub(proc.started)
		} else {
			stats.CPU += proc.result().Duration
		}
	}
	return stats, nil
}

// Lose makes a sandbox lost, as if its supervisor had been killed. It is for tests.
func (p *Provider) Lose(id string) error {
	b, err := p.box(id)
	if err != nil {
		return err
	}
	b.end(core.StateLost, core.ReasonSupervisor, "its supervisor died", nil)
	return nil
}

// Leave adds a leftover, as of a crash, for Leftovers and Sweep.
func (p *Provider) Leave(leftover core.Leftover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leftover.Provider = p.opts.Name
	p.leftovers = append(p.leftovers, leftover)
}

// Leftovers implements core.Sweeper.
func (p *Provider) Leftovers(ctx context.Context) ([]core.Leftover, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.leftovers), ctx.Err()
}

// Sweep implements core.Sweeper.
func (p *Provider) Sweep(ctx context.Context, leftover core.Leftover) error {
	if err := p.faults.meet(ctx, OpSweep); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.leftovers, leftover)
	if at < 0 {
		return core.Errorf(core.KindNotFound, "fake.sweep", leftover.Subject, "no leftover has that name")
	}
	p.leftovers = slices.Delete(p.leftovers, at, at+1)
	return nil
}
