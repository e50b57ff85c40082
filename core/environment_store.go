package core

import "context"

// EnvironmentInfo is a provider's environment: a space with volumes, secrets and apps of its own. It has
// nothing to do with environment variables.
type EnvironmentInfo struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// Current says that it is the one that this sb works in.
	Current bool `json:"current,omitempty"`
}

// EnvironmentStore keeps environments. Its capability is CapEnvironmentStore.
type EnvironmentStore interface {
	// Environments returns them in no order.
	Environments(ctx context.Context) ([]EnvironmentInfo, error)
	// CreateEnvironment makes an empty one. KindConflict: there is one of that name.
	CreateEnvironment(ctx context.Context, name string) (EnvironmentInfo, error)
	// RemoveEnvironment removes one with everything in it.
	RemoveEnvironment(ctx context.Context, name string) error
}
