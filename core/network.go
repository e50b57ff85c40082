package core

import "context"

// NetworkPolicer changes where a running sandbox may connect to. Its capability is CapNetworkUpdate.
type NetworkPolicer interface {
	// SetNetwork replaces the policy; network has a mode. Connections that the new one does not allow are cut
	// where the provider can do that. The Spec of the sandbox that is returned, and of later ones, has the new policy.
	SetNetwork(ctx context.Context, id string, network Network) (Sandbox, error)
}
