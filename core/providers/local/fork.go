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

// keepTimeout bounds the time to write a sandbox out. The sandbox is stopped for that time.
const keepTimeout = 5 * time.Minute

// Fork implements core.Forker. The children of the sandbox's first process continue in the fork: the entry command and
// detached commands. gVisor kills all other commands in a copy.
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
	defer root.release()
	forkID := core.NewID(store.IDPrefix)
	lock, err := p.store.Create(forkID)
	if err != nil {
		return core.Sandbox{}, stateError("fork", err)
	}
	defer func() { _ = lock.Close() }()
	request := socket.Launch{
		ID: forkID, Spec: source.Spec.Clone(), Lease: lease, RootID: root.id, Root: root.root,
		Image: filepath.Join(p.store.Dir(forkID), store.ImageDir),
	}
	request.Spec.Name, request.Spec.Labels, request.Spec.Timeout = spec.Name, spec.Labels, spec.Timeout
	for i := range request.Spec.Ports {
		request.Spec.Ports[i].Host = 0 // the source uses that port
	}
	return p.make(ctx, lock, request, func(ctx context.Context) (*wire.Kept, error) {
		kept, err := p.keep(ctx, id, request.Image)
		if err != nil {
			return nil, err
		}
		return kept, p.keepSecrets(request, kept.Secrets)
	}, nil)
}

// keep makes the supervisor write a sandbox to dir, which must not exist yet.
func (p *Provider) keep(ctx context.Context, id, dir string) (*wire.Kept, error) {
	reply, err := p.writeOut(ctx, id, wire.VerbCheckpoint, dir)
	if err != nil {
		return nil, err
	}
	return reply.Kept, nil
}

// writeOut sends verb to the supervisor and moves the files that it writes to dir, a new directory. The supervisor can
// only write in a directory of the sandbox.
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
