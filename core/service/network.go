package service

import (
	"context"

	"github.com/seed-0724f904/sb/core"
)

// SetNetwork changes where a running sandbox may connect to.
func (s Policy) SetNetwork(ctx context.Context, ref string, network core.Network) (changed core.Sandbox, err error) {
	args := map[string]any{"mode": network.Mode, "allow": network.Allow}
	err = s.act(ctx, "policy set", ref, args, func(sb core.Sandbox, p core.Provider) error {
		if network.Mode == core.NetworkDefault {
			return core.Invalid("network", "the mode is missing")
		}
		if err := network.Validate(); err != nil {
			return err
		}
		requested := core.Spec{Network: network}
		if err := s.scope.Policy.admitNetwork(&requested); err != nil {
			return err
		}
		policer, err := capable[core.NetworkPolicer](s.base, sb.Provider, "policy set")
		if err != nil {
			return err
		}
		for _, need := range requested.NeededFor() {
			if !p.Capabilities().Can(need.Capability) {
				return s.unsupported(sb.Provider, "policy set", need.Flag, need.Capability)
			}
		}
		changed, err = policer.SetNetwork(ctx, sb.ID, network)
		if err == nil {
			s.announce(changed)
		}
		return err
	})
	return changed, err
}
