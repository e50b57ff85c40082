//go:build linux

package supervisor

import (
	"context"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/netstack"
)

// connect makes the sandbox's network and returns its description for the engine. The caller closes the network card. A
// sandbox without a network has a card, too, whose traffic is refused: gVisor cannot add a card to a running sandbox.
func (s *Supervisor) connect(network core.Network) (*engine.Network, error) {
	host, nic, err := netstack.Pair()
	if err != nil {
		return nil, err
	}
	if s.stack, err = netstack.New(netstack.Config{
		NIC: host, Guest: nic, Policy: policy(network), Denied: s.noteDenial,
	}); err != nil {
		_ = nic.Close()
		return nil, err
	}
	return &engine.Network{
		NIC: nic, MTU: netstack.MTU, Bits: netstack.PrefixBits, Address: netstack.SandboxAddr(),
		Gateway: netstack.GatewayAddr(),
	}, nil
}

// setNetwork replaces the network policy. The client stores the policy.
func (s *Supervisor) setNetwork(network *core.Network) error {
	if network == nil {
		return core.Errorf(core.KindUsage, "policy set", s.launch.ID, "the policy is missing")
	}
	s.policing.Lock()
	defer s.policing.Unlock()
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over {
		return core.Errorf(core.KindConflict, "policy set", s.launch.ID, "the sandbox has ended")
	}
	s.mu.Lock()
	s.launch.Spec.Network = *network
	s.mu.Unlock()
	s.stack.SetPolicy(policy(*network))
	return nil
}

// policy returns the policy that enforces a sandbox's network.
func policy(network core.Network) netstack.Policy {
	switch network.Mode {
	case core.NetworkDefault, core.NetworkAll:
		return netstack.NewAllowPublic()
	case core.NetworkAllow:
		return netstack.NewAllowList(netstack.NewAllowPublic(), network.Allow)
	case core.NetworkNone, core.NetworkInternal:
	}
	return denyAll{}
}

// denyAll is the policy of a sandbox without a network.
type denyAll struct{}

func (denyAll) Allow(context.Context, netstack.Flow) (bool, string) { return false, "network is none" }

func (denyAll) ByName() bool { return false }
