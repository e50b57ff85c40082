package core

import "context"

// EnvironmentInfo is a provider's environment: a namespace for volumes, secrets and apps. It is unrelated to
// environment variables.
type EnvironmentInfo struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// Current marks the environment that this sb uses.
	Current bool `json:"current,omitempty"`
}

// EnvironmentStore manages environments. Its capability is CapEnvironmentStore.
type EnvironmentStore interface {
	// Environments returns the environments in no order.
	Environments(ctx context.Context) ([]EnvironmentInfo, error)
	// CreateEnvironment creates an empty environment. KindConflict: the name is taken.
	CreateEnvironment(ctx context.Context, name string) (EnvironmentInfo, error)
	// RemoveEnvironment removes an environment and its content.
	RemoveEnvironment(ctx context.Context, name string) error
}
