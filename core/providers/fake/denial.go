package fake

import (
	"context"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// Deny adds a denial of a sandbox's policy and notifies watchers.
func (p *Provider) Deny(id string, denial core.Denial) error {
	b, err := p.box(id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.denials = slices.Insert(b.denials, 0, denial)
	name := b.sandbox.Name
	b.mu.Unlock()
	p.events.add(core.Event{
		Time: denial.Time, Type: core.EventDenial, Provider: p.opts.Name, Sandbox: id, Name: name, Denial: &denial,
	})
	return nil
}

// Denials implements core.DenialReader.
func (p *Provider) Denials(ctx context.Context, id string) ([]core.Denial, error) {
	if err := p.faults.meet(ctx, OpDenials); err != nil {
		return nil, err
	}
	b, err := p.box(id)
	if err != nil {
		return nil, err
	}
	if sb := b.get(); sb.State != core.StateRunning && sb.State != core.StatePaused {
		return nil, b.notRunning()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.denials), nil
}
