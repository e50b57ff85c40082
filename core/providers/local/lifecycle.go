//go:build linux

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// WaitSandbox implements core.Waiter.
func (p *Provider) WaitSandbox(ctx context.Context, id string) (core.Sandbox, error) {
	tick := time.NewTicker(5 * poll)
	defer tick.Stop()
	var last core.Sandbox
	ending := false
	for {
		// The lock is checked first. The supervisor writes its final state, with the entry command's exit code, before it
		// releases the lock.
		supervised := p.store.Locked(id)
		sb, err := p.Get(ctx, id)
		switch {
		case err != nil:
			return sb, err
		case running(sb.State) && ending:
			return last, nil // it was started again
		case !running(sb.State) && !supervised:
			return sb, nil
		case !running(sb.State):
			ending, last = true, sb
		}
		select {
		case <-ctx.Done():
			return sb, core.Wrap("local.wait", sb.Name, ctx.Err())
		case <-tick.C:
		}
	}
}

// Stop implements core.Stopper.
func (p *Provider) Stop(ctx context.Context, id string, grace time.Duration) error {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return err
	}
	if !running(sb.State) {
		return notRunning(sb)
	}
	supervisor, err := p.store.ReadProcess(id)
	if err != nil {
		return stateError("stop", err)
	}
	if _, err := p.control(ctx, id, &wire.Request{Verb: wire.VerbStop, Grace: grace}); err != nil {
		return err
	}
	return p.awaitStop(ctx, id, supervisor)
}

// Pause implements core.Pauser.
func (p *Provider) Pause(ctx context.Context, id string) error {
	return p.request(ctx, id, &wire.Request{Verb: wire.VerbPause})
}

// Resume implements core.Pauser.
func (p *Provider) Resume(ctx context.Context, id string) error {
	return p.request(ctx, id, &wire.Request{Verb: wire.VerbResume})
}

// SetTimeout implements core.Renewer.
func (p *Provider) SetTimeout(ctx context.Context, id string, timeout time.Duration) (core.Sandbox, error) {
	request := &wire.Request{Verb: wire.VerbExpire, Issued: time.Now()}
	if timeout > 0 {
		request.Expires = request.Issued.Add(timeout)
	}
	if err := p.request(ctx, id, request); err != nil {
		return core.Sandbox{}, err
	}
	return p.read(id)
}

// KeepAlive implements core.Renewer.
func (p *Provider) KeepAlive(ctx context.Context, id string, lease time.Duration) error {
	now := time.Now()
	return p.request(ctx, id, &wire.Request{Verb: wire.VerbExpire, Issued: now, Expires: now.Add(lease), Lease: true})
}

// GivenSecrets implements core.SecretTeller. The supervisor holds the secrets. They are not on disk unless the sandbox
// persists.
func (p *Provider) GivenSecrets(ctx context.Context, id string) ([]core.Secret, error) {
	if !store.ValidID(id) {
		return nil, notFound(id)
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	reply, err := p.control(ctx, id, &wire.Request{Verb: wire.VerbSecrets})
	if err != nil {
		return nil, err
	}
	secrets := make([]core.Secret, len(reply.Secrets))
	for i, secret := range reply.Secrets {
		secrets[i] = core.Secret{Name: secret.Name, Value: core.NewSecretValue(secret.Value)}
	}
	return secrets, nil
}

// Stats implements core.StatsReader.
func (p *Provider) Stats(ctx context.Context, id string) (core.Stats, error) {
	if !store.ValidID(id) {
		return core.Stats{}, notFound(id)
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	reply, err := p.control(ctx, id, &wire.Request{Verb: wire.VerbStats})
	if err != nil {
		return core.Stats{}, err
	}
	return *reply.Stats, nil
}

// Size implements core.Sizer. It returns the size of a running sandbox's written files, or of the saved files.
func (p *Provider) Size(ctx context.Context, id string) (core.Bytes, error) {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	if sb.State == core.StateRunning || sb.State == core.StatePaused {
		if stats, err := p.Stats(ctx, id); err == nil {
			return stats.Disk, nil
		}
	}
	return treeSize(filepath.Join(p.store.Dir(id), store.SavedDir)), nil
}

// Denials implements core.DenialReader.
func (p *Provider) Denials(ctx context.Context, id string) ([]core.Denial, error) {
	if !store.ValidID(id) {
		return nil, notFound(id)
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	reply, err := p.control(ctx, id, &wire.Request{Verb: wire.VerbDenials})
	if err != nil {
		return nil, err
	}
	return reply.Denials, nil
}

// SetNetwork implements core.NetworkPolicer. The supervisor enforces the new policy at once. It also applies after a
// stop and in forks. The client then writes the lease, because a supervisor must not change its sandbox's rights.
func (p *Provider) SetNetwork(ctx context.Context, id string, network core.Network) (core.Sandbox, error) {
	if !store.ValidID(id) {
		return core.Sandbox{}, notFound(id)
	}
	err := p.store.Update(id, func(dir string) error {
		lease, err := p.store.ReadLease(id)
		if err != nil {
			return core.Wrap("local.policy set", id, err)
		}
		before := lease.Spec.Network
		if err := p.request(ctx, id, &wire.Request{Verb: wire.VerbNetwork, Network: &network}); err != nil {
			return err
		}
		lease.Spec.Network = network
		if err := store.WriteLease(dir, lease); err != nil {
			why := stateError("policy set", err)
			err = core.Errorf(
				core.KindOf(why), "local.policy set", id, "the policy could not be written; the old one stays in effect: %w", err,
			).WithHint("%s", core.HintOf(why))
			return errors.Join(
				err, p.request(context.WithoutCancel(ctx), id, &wire.Request{Verb: wire.VerbNetwork, Network: &before}),
			)
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return core.Sandbox{}, notFound(id)
	}
	if err != nil {
		return core.Sandbox{}, err
	}
	return p.read(id)
}

// request makes a request that needs little time. controlTimeout bounds it.
func (p *Provider) request(ctx context.Context, id string, request *wire.Request) error {
	if !store.ValidID(id) {
		return notFound(id)
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	_, err := p.control(ctx, id, request)
	return err
}

// Terminate implements core.Provider.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	if !store.ValidID(id) {
		return notFound(id)
	}
	sb, err := p.read(id)
	if err != nil {
		return err
	}
	if p.store.Locked(id) {
		if err := p.end(ctx, id); err != nil {
			return err
		}
	}
	lock, err := p.store.Lock(id)
	if errors.Is(err, store.ErrLocked) {
		// Another client holds the lock. Most likely it removes the sandbox.
		if err := p.end(ctx, id); err != nil {
			return err
		}
		lock, err = p.store.Lock(id)
	}
	if errors.Is(err, store.ErrLocked) {
		return core.Errorf(
			core.KindConflict, "local.terminate", sb.Name, "another process is starting or ending the sandbox",
		)
	}
	if errors.Is(err, os.ErrNotExist) {
		return notFound(id)
	}
	if err != nil {
		return stateError("terminate", err)
	}
	defer func() { _ = lock.Close() }()
	if err := p.forget(ctx, id, sb.Name); err != nil {
		return stateError("terminate", err)
	}
	p.reap()
	return nil
}

// end requests the sandbox's end from its supervisor. It kills a supervisor that does not comply.
func (p *Provider) end(ctx context.Context, id string) error {
	endCtx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	_, err := p.control(endCtx, id, &wire.Request{Verb: wire.VerbEnd})
	grace := endTimeout
	if sb, readErr := p.read(id); err != nil && readErr == nil && running(sb.State) {
		// The supervisor hangs, or another client is removing the sandbox.
		grace = deafTimeout
	}
	ending, cancelEnding := context.WithTimeout(endCtx, grace)
	defer cancelEnding()
	if p.awaitEnd(ending, id) == nil {
		return nil // since then only another client can hold the lock
	}
	if ctx.Err() != nil {
		return core.Wrap("local.terminate", id, ctx.Err())
	}
	if err := p.killSupervisor(ctx, id); err != nil && p.store.Locked(id) {
		return core.Errorf(
			core.KindUnavailable, "local.terminate", id, "its supervisor does not answer and cannot be killed: %w", err,
		)
	}
	killed, cancelKilled := context.WithTimeout(ctx, endTimeout)
	defer cancelKilled()
	return p.awaitEnd(killed, id)
}

// awaitEnd waits until no process is responsible for the sandbox.
func (p *Provider) awaitEnd(ctx context.Context, id string) error {
	return p.await(ctx, id, func() bool { return !p.store.Locked(id) })
}

// awaitStop waits until a supervisor has ended. Another client may have started the sandbox again since then.
func (p *Provider) awaitStop(ctx context.Context, id string, supervisor store.Process) error {
	return p.await(ctx, id, func() bool {
		now, err := p.store.ReadProcess(id)
		return !p.store.Locked(id) || err == nil && now != supervisor
	})
}

func (p *Provider) await(ctx context.Context, id string, over func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !over() {
		p.reap()
		select {
		case <-ctx.Done():
			return core.Wrap("local", id, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// killSupervisor kills the sandbox's supervisor and waits for its end. The pid comes from the client's record, because
// an attacker could forge the supervisor's state. The process must have the recorded start time and boot id.
// fs.ErrNotExist: no supervisor was started.
func (p *Provider) killSupervisor(ctx context.Context, id string) error {
	process, err := p.store.ReadProcess(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	still := func() bool {
		started, alive := core.ProcessStart(process.PID)
		return alive && started == process.Start && process.BootID == core.BootID()
	}
	if !still() {
		return nil
	}
	return killProcess(ctx, process.PID, still)
}
