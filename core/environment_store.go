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

// Environments lists the environments of a provider; "" asks all providers.
func (s *Service) Environments(ctx context.Context, provider string) (Inventory[EnvironmentInfo], error) {
	return inventory(ctx, s, provider, "environment ls", CapEnvironmentStore, EnvironmentStore.Environments)
}

// CreateEnvironment makes an environment. provider may be "" when only one has them.
func (s *Service) CreateEnvironment(ctx context.Context, provider, name string) (made EnvironmentInfo, err error) {
	err = stored(ctx, s, provider, "environment create", name, CapEnvironmentStore, nil, func(store EnvironmentStore) error {
		made, err = store.CreateEnvironment(ctx, name)
		return err
	})
	return made, err
}

// RemoveEnvironment removes an environment with everything in it. provider may be "" when only one has them.
func (s *Service) RemoveEnvironment(ctx context.Context, provider, name string) error {
	return stored(ctx, s, provider, "environment rm", name, CapEnvironmentStore, nil, func(store EnvironmentStore) error {
		return store.RemoveEnvironment(ctx, name)
	})
}
