package core

import "context"

// NetworkPolicer changes where a running sandbox may connect to. Its capability is CapNetworkUpdate.
type NetworkPolicer interface {
	// SetNetwork replaces the policy; network has a mode. Connections that the new one does not allow are cut
	// where the provider can do that. The Spec of the sandbox that is returned, and of later ones, has the new policy.
	SetNetwork(ctx context.Context, id string, network Network) (Sandbox, error)
}

// SetNetwork changes where a running sandbox may connect to.
func (s *Service) SetNetwork(ctx context.Context, ref string, network Network) (changed Sandbox, err error) {
	args := map[string]any{"mode": network.Mode, "allow": network.Allow}
	err = s.act(ctx, "policy set", ref, args, func(sb Sandbox, p Provider) error {
		if network.Mode == NetworkDefault {
			return invalid("network", "no mode is named")
		}
		if err := network.Validate(); err != nil {
			return err
		}
		asked := Spec{Network: network}
		if err := s.scope.Policy.admitNetwork(&asked); err != nil {
			return err
		}
		policer, err := capable[NetworkPolicer](s, sb.Provider, "policy set", CapNetworkUpdate)
		if err != nil {
			return err
		}
		for _, need := range asked.needs() {
			if !p.Capabilities().Can(need) {
				return s.unsupported(sb.Provider, "policy set", need)
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
