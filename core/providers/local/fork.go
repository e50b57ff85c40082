//go:build linux

package local

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// keepTimeout bounds how long a sandbox may be written out; it stands still meanwhile.
const keepTimeout = 5 * time.Minute

// Fork implements core.Forker. Commands go on in the fork that the sandbox's first process runs: the entry command and
// those that were started detached. gVisor kills all others in a copy.
func (p *Provider) Fork(ctx context.Context, id string, spec core.ForkSpec, lease core.Lease) (core.Sandbox, error) {
	if err := checkOpenFiles("fork"); err != nil {
		return core.Sandbox{}, err
	}
	source, err := p.Get(ctx, id)
	if err != nil {
		return core.Sandbox{}, err
	}
	if source.State != core.StateRunning {
		return core.Sandbox{}, notRunning(source)
	}
	rootID, err := p.store.Root(id)
	if err != nil {
		return core.Sandbox{}, stateError("fork", err)
	}
	root, err := p.storedRoot(ctx, "fork", source.Name, rootID)
	if err != nil {
		return core.Sandbox{}, err
	}
	forkID := core.NewID(store.IDPrefix)
	lock, err := p.store.Create(forkID)
	if err != nil {
		return core.Sandbox{}, stateError("fork", err)
	}
	defer func() { _ = lock.Close() }()
	request := socket.Launch{
		ID: forkID, Spec: source.Spec.Clone(), Lease: lease, RootID: rootID, Root: root,
		Image: filepath.Join(p.store.Dir(forkID), store.ImageDir),
	}
	request.Spec.Name, request.Spec.Labels, request.Spec.Timeout = spec.Name, spec.Labels, spec.Timeout
	for i := range request.Spec.Ports {
		request.Spec.Ports[i].Host = 0 // the source has it
	}
	return p.make(ctx, lock, request, func(ctx context.Context) (*wire.Kept, error) {
		kept, err := p.keep(ctx, id, request.Image)
		if err != nil {
			return nil, err
		}
		return kept, p.keepSecrets(request, kept.Secrets)
	}, nil)
}

// keep has a sandbox written to dir, which does not exist yet.
func (p *Provider) keep(ctx context.Context, id, dir string) (*wire.Kept, error) {
	reply, err := p.writeOut(ctx, id, wire.VerbCheckpoint, dir)
	if err != nil {
		return nil, err
	}
	return reply.Kept, nil
}

// writeOut has the supervisor write as verb says, and moves what it wrote to dir, which it makes. The supervisor writes
// in a directory of the sandbox and sees no other.
func (p *Provider) writeOut(ctx context.Context, id string, verb wire.Verb, dir string) (_ *wire.Reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	out, err := p.store.Out(id)
	if err != nil {
		return nil, stateError(string(verb), err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	reply, err := p.control(ctx, id, &wire.Request{Verb: verb, Dir: out.Name})
	if err != nil {
		return nil, err
	}
	return reply, stateError(string(verb), out.Take(dir))
}
