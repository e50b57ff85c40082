package core

import "context"

// NetworkPolicer changes the network policy of a running sandbox. Its capability is CapNetworkUpdate.
type NetworkPolicer interface {
	// SetNetwork replaces the policy; network has a mode. Where possible, the provider cuts connections that the new
	// policy does not allow. The returned sandbox, and later ones, have the new policy in their Spec.
	SetNetwork(ctx context.Context, id string, network Network) (Sandbox, error)
}
