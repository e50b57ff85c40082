package docker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
	"github.com/seed-0724f904/sb/core/providers/docker/image"
)

// stopSlack is the time beyond the commands' grace in which the first process records its end.
const stopSlack = 10 * time.Second

// Terminate implements core.Provider.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return err
	}
	e, err := p.connect(ctx)
	if err != nil {
		return p.absent(err, id)
	}
	bounded, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	_, err = e.Client.ContainerRemove(
		bounded, containerOf(id), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true},
	)
	p.knownMu.Lock()
	delete(p.known, id)
	p.knownMu.Unlock()
	switch {
	case errdefs.IsNotFound(err):
		return notFound(id)
	case errdefs.IsConflict(err):
		// Another process removes it. That is also success, once it is done.
		return p.awaitRemoval(bounded, e, id)
	case err == nil && sb.Spec.Network.Mode == core.NetworkInternal:
		return e.leaveInternal(ctx, internalName(sb.App, sb.Lease.Owner))
	}
	return engine.Classify(bounded, "terminate", id, err)
}

// awaitRemoval waits until the engine has removed a container.
func (p *Provider) awaitRemoval(ctx context.Context, e containers, id string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := e.container(ctx, containerOf(id))
		if errdefs.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return engine.Classify(ctx, "terminate", id, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return engine.Classify(ctx, "terminate", id, ctx.Err())
		}
	}
}

// WaitSandbox implements core.Waiter.
func (p *Provider) WaitSandbox(ctx context.Context, id string) (core.Sandbox, error) {
	for {
		sb, err := p.Get(ctx, id)
		if err != nil {
			return sb, err
		}
		e, err := p.connect(ctx)
		if err != nil {
			return core.Sandbox{}, err
		}
		switch sb.State {
		case core.StateQueued, core.StateCreating, core.StateRunning, core.StatePaused:
		case core.StateLost:
			// Removal kills a container first, so it looks lost until the end of the removal.
			return sb, e.awaitGone(ctx, id)
		case core.StateStopped, core.StateExited, core.StateFailed:
			return sb, nil
		}
		if err := e.awaitExit(ctx, containerOf(id)); err != nil {
			return core.Sandbox{}, err
		}
		if sb.State != core.StateCreating {
			continue
		}
		// It does not run yet, so ContainerWait returned at once.
		select {
		case <-time.After(creatingPoll):
		case <-ctx.Done():
			return core.Sandbox{}, core.Wrap("docker.wait", id, ctx.Err())
		}
	}
}

// awaitGone returns an error of KindNotFound if a container that has ended is removed, nil if it stays.
func (e containers) awaitGone(ctx context.Context, id string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; {
		c, err := e.container(ctx, containerOf(id))
		switch {
		case errdefs.IsNotFound(err):
			return notFound(id)
		case err != nil:
			return engine.Classify(ctx, "wait", id, err)
		case c.State == nil || c.State.Status != container.StateRemoving && time.Since(begin) > removalGrace:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return core.Wrap("docker.wait", id, ctx.Err())
		}
	}
}

// removalGrace bounds the time from a container's end until the engine reports its removal. Podman reports it late.
const removalGrace = 3 * time.Second

// creatingPoll is the interval of checks of a sandbox that is being created.
const creatingPoll = 100 * time.Millisecond

// awaitExit blocks until a container no longer runs.
func (e containers) awaitExit(ctx context.Context, id string) error {
	condition := container.WaitConditionNotRunning
	waited := e.Client.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: condition})
	select {
	case <-waited.Result:
		return nil
	case err := <-waited.Error:
		if errdefs.IsNotFound(err) {
			return notFound(IDPrefix + id)
		}
		return engine.Classify(ctx, "wait", id, err)
	case <-ctx.Done():
		return core.Wrap("docker.wait", id, ctx.Err())
	}
}

// Stop implements core.Stopper.
func (p *Provider) Stop(ctx context.Context, id string, grace time.Duration) error {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return err
	}
	if !sb.Spec.Persist {
		return core.Errorf(core.KindConflict, "docker.stop", sb.Name, "the sandbox is not persistent: stopping would end it").
			WithHint("launch it with --persist, or end it with: sb terminate %s", sb.Name)
	}
	if err := notRunning(sb, "stop"); err != nil {
		return err
	}
	if _, err := p.ask(
		ctx, id, "stop", wire.Request{Verb: wire.VerbStop, Grace: max(grace, time.Millisecond)},
	); err != nil {
		return err
	}
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := engine.Within(ctx, grace+stopSlack)
	defer cancel()
	return e.awaitExit(bounded, containerOf(id))
}

// Start implements core.Stopper.
func (p *Provider) Start(ctx context.Context, id string) (core.Sandbox, error) {
	e, err := p.connect(ctx)
	if err != nil {
		return core.Sandbox{}, p.absent(err, id)
	}
	// Read before the check that the sandbox does not run: later states belong to its next run.
	before, _ := lastState(ctx, e, id)
	sb, err := p.Get(ctx, id)
	if err != nil {
		return sb, err
	}
	switch {
	case !sb.Spec.Persist:
		return sb, core.Errorf(
			core.KindConflict, "docker.start", sb.Name, "the sandbox is not persistent: its files were not kept",
		).
			WithHint("launch a new one, with --persist if it should survive a stop")
	case sb.State != core.StateStopped:
		return sb, core.Errorf(core.KindConflict, "docker.start", sb.Name, "the sandbox is %s", sb.State)
	}
	k, err := p.knownOf(ctx, id)
	if err != nil {
		return sb, err
	}
	if err := wire.CheckVersion(wire.Version, k.protocol); err != nil {
		return sb, core.Wrap("docker.start", sb.Name, err)
	}
	from, err := p.containerImage(ctx, e, k.container)
	if err != nil {
		return sb, err
	}
	// The first process's configuration comes from the labels, not from files that the sandbox could have changed.
	l := launch{p: p, e: e, spec: sb.Spec, lease: sb.Lease, image: from, dir: k.dir}
	if err := l.untouched(ctx, k.container); err != nil {
		return sb, err
	}
	config, err := l.config(ctx, id)
	if err != nil {
		return sb, err
	}
	config.Expires, config.Fixed = renewed(sb.Spec, before, time.Now())
	if config.Secrets, err = e.keptSecrets(ctx, sb, k); err != nil {
		return sb, err
	}
	if err := e.start(ctx, k.container, config, k.key, before.Time); err != nil {
		return sb, err
	}
	return p.Get(ctx, id)
}

// renewed returns the end of a sandbox that starts now. last is the final state of its previous run. The lifetime
// begins again; a fixed lifetime without an end stays.
func renewed(spec core.Spec, last wire.State, now time.Time) (expires time.Time, fixed bool) {
	if last.Fixed && last.Expires.IsZero() {
		return time.Time{}, true
	}
	if spec.Timeout > 0 {
		expires = now.Add(time.Duration(spec.Timeout))
	}
	return expires, false
}

// Size implements core.Sizer: the size of the container's writable layer.
func (p *Provider) Size(ctx context.Context, id string) (core.Bytes, error) {
	e, err := p.connect(ctx)
	if err != nil {
		return 0, p.absent(err, id)
	}
	if containerOf(id) == "" {
		return 0, notFound(id)
	}
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	found, err := e.Client.ContainerInspect(ctx, containerOf(id), client.ContainerInspectOptions{Size: true})
	if errdefs.IsNotFound(err) {
		return 0, notFound(id)
	}
	if err != nil || found.Container.SizeRw == nil {
		return 0, engine.Classify(ctx, "size", id, err)
	}
	return core.Bytes(*found.Container.SizeRw), nil
}

// containerImage returns the image that a container was made from.
func (p *Provider) containerImage(ctx context.Context, e containers, id string) (image.Image, error) {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.container(ctx, id)
	if err != nil {
		return image.Image{}, engine.Classify(ctx, "start", id, err)
	}
	return image.Inspect(ctx, e.Engine, found.Image)
}

// Pause implements core.Pauser.
func (p *Provider) Pause(ctx context.Context, id string) error {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := notRunning(sb, "pause"); err != nil {
		return err
	}
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	if err := p.learn(ctx, e); err != nil {
		return err
	}
	if !e.Facts().Grouped {
		if _, err := p.ask(ctx, id, "pause", wire.Request{Verb: wire.VerbPause}); err != nil {
			return err
		}
		e.awaitLine(ctx, id, func(s wire.State) bool { return s.State == core.StatePaused })
		return nil
	}
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	_, err = e.Client.ContainerPause(ctx, containerOf(id), client.ContainerPauseOptions{})
	return engine.Classify(ctx, "pause", id, err)
}

// awaitLine waits until the container's log has a state that accept accepts, because other clients read the log. It
// gives up after lineTimeout.
func (e containers) awaitLine(ctx context.Context, id string, accept func(wire.State) bool) {
	ctx, cancel := engine.Within(ctx, lineTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if state, ok := lastState(ctx, e, id); ok && accept(state) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// lineTimeout bounds awaitLine.
const lineTimeout = 3 * time.Second

// Resume implements core.Pauser.
func (p *Provider) Resume(ctx context.Context, id string) error {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return err
	}
	if sb.State != core.StatePaused {
		return core.Errorf(core.KindConflict, "docker.resume", sb.Name, "the sandbox is not paused")
	}
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	if err := p.learn(ctx, e); err != nil {
		return err
	}
	if !e.Facts().Grouped {
		if _, err := p.ask(ctx, id, "resume", wire.Request{Verb: wire.VerbResume}); err != nil {
			return err
		}
		e.awaitLine(ctx, id, func(s wire.State) bool { return s.State != core.StatePaused })
		return nil
	}
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	_, err = e.Client.ContainerUnpause(ctx, containerOf(id), client.ContainerUnpauseOptions{})
	return engine.Classify(ctx, "resume", id, err)
}

// SetTimeout implements core.Renewer.
func (p *Provider) SetTimeout(ctx context.Context, id string, timeout time.Duration) (core.Sandbox, error) {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return sb, err
	}
	if err := notRunning(sb, "timeout"); err != nil {
		return sb, err
	}
	return p.expire(ctx, sb, timeout, false)
}

// KeepAlive implements core.Renewer.
func (p *Provider) KeepAlive(ctx context.Context, id string, lease time.Duration) error {
	sb, err := p.Get(ctx, id)
	if err != nil || !sb.Lease.Renewed {
		return err
	}
	if err := notRunning(sb, "timeout"); err != nil {
		return err
	}
	_, err = p.expire(ctx, sb, lease, true)
	return err
}

// GivenSecrets implements core.SecretTeller.
func (p *Provider) GivenSecrets(ctx context.Context, id string) ([]core.Secret, error) {
	e, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	sb, err := p.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	k, err := p.knownOf(ctx, id)
	if err != nil {
		return nil, err
	}
	values, err := e.keptSecrets(ctx, sb, k)
	secrets := make([]core.Secret, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		secrets = append(secrets, core.Secret{Name: name, Value: core.NewSecretValue(values[name])})
	}
	return secrets, err
}

// expire sets the end of the sandbox: permanently, or by a lease.
func (p *Provider) expire(
	ctx context.Context, sb core.Sandbox, timeout time.Duration, lease bool,
) (core.Sandbox, error) {
	id := sb.ID
	request := wire.Request{Verb: wire.VerbExpire, Issued: time.Now(), Lease: lease}
	if timeout > 0 {
		request.Expires = request.Issued.Add(timeout)
	}
	if _, err := p.ask(ctx, id, "timeout", request); err != nil {
		return sb, err
	}
	e, err := p.connect(ctx)
	if err != nil {
		return sb, err
	}
	e.awaitLine(ctx, id, func(s wire.State) bool {
		return s.Expires.Equal(request.Expires) ||
			s.State != core.StateRunning
	})
	now, err := p.Get(ctx, id)
	if errors.Is(err, core.KindNotFound) {
		now, err = sb, nil // its time was over at once
	}
	now.Expires = request.Expires
	return now, err
}
