package fake

import (
	"context"
	"maps"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// kept is a checkpoint. It has only the files, since the commands are goroutines of this process.
type kept struct {
	core.Checkpoint
	tree *tree
}

// Fork implements core.Forker for the files and the environment. The fork has none of the source's running commands.
func (p *Provider) Fork(ctx context.Context, id string, spec core.ForkSpec, lease core.Lease) (core.Sandbox, error) {
	if err := p.faults.meet(ctx, OpFork); err != nil {
		return core.Sandbox{}, err
	}
	source, err := p.box(id)
	if err != nil {
		return core.Sandbox{}, err
	}
	if err := source.ready(); err != nil {
		return core.Sandbox{}, err
	}
	forked := source.get().Spec
	forked.Name, forked.Labels, forked.Timeout, forked.Command = spec.Name, maps.Clone(spec.Labels), spec.Timeout, nil
	b := newBox(p, forked, lease)
	b.tree = source.tree.clone()
	b.env = maps.Clone(source.env) // with the secrets
	b.secrets = slices.Clone(source.secrets)
	b.env["HOSTNAME"] = spec.Name
	if err := p.reserve(b); err != nil {
		return core.Sandbox{}, err
	}
	if err := b.begin(); err != nil {
		p.forget(b)
		return core.Sandbox{}, err
	}
	return b.get(), nil
}

// Checkpoint implements core.Checkpointer.
func (p *Provider) Checkpoint(ctx context.Context, id, name string) (core.Checkpoint, error) {
	if err := p.faults.meet(ctx, OpKeep); err != nil {
		return core.Checkpoint{}, err
	}
	b, err := p.box(id)
	if err != nil {
		return core.Checkpoint{}, err
	}
	if err := b.ready(); err != nil {
		return core.Checkpoint{}, err
	}
	sb := b.get()
	spec := sb.Spec.Clone()
	spec.Command = nil
	made := &kept{tree: b.tree.clone(), Checkpoint: core.Checkpoint{
		Name: name, Provider: p.opts.Name, Sandbox: sb.ID, Of: sb.Name, Created: p.opts.Now(),
		Size: ownMemory + core.Bytes(b.tree.size()), Spec: spec,
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.kept[name]; taken {
		return core.Checkpoint{}, core.Errorf(
			core.KindConflict, "fake.checkpoint", name, "there is a checkpoint %q already", name,
		).
			WithHint("choose another name, or remove it with: sb checkpoint rm %s", name)
	}
	p.kept[name] = made
	return made.Checkpoint, nil
}

// Checkpoints implements core.Checkpointer.
func (p *Provider) Checkpoints(ctx context.Context) ([]core.Checkpoint, error) {
	if err := p.faults.meet(ctx, OpKeep); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]core.Checkpoint, 0, len(p.kept))
	for _, k := range p.kept {
		list = append(list, k.Checkpoint)
	}
	return list, nil
}

// RemoveCheckpoint implements core.Checkpointer.
func (p *Provider) RemoveCheckpoint(ctx context.Context, name string) error {
	if err := p.faults.meet(ctx, OpKeep); err != nil {
		return err
	}
	if _, err := p.keptAs(name); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.kept, name)
	return nil
}

// keptAs returns a checkpoint by its name.
func (p *Provider) keptAs(name string) (*kept, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.kept[name]; ok {
		return k, nil
	}
	return nil, core.Errorf(core.KindNotFound, "fake.checkpoint", name, "there is no checkpoint %q", name)
}
