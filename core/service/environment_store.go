package service

import (
	"context"

	"github.com/seed-0724f904/sb/core"
)

// Environments lists the environments of a provider; "" means all providers.
func (s Stores) Environments(ctx context.Context, provider string) (Inventory[core.EnvironmentInfo], error) {
	return inventory(ctx, s.base, provider, "environment ls", core.EnvironmentStore.Environments)
}

// CreateEnvironment makes an environment. provider may be "" when only one has them.
func (s Stores) CreateEnvironment(ctx context.Context, provider, name string) (made core.EnvironmentInfo, err error) {
	err = stored(ctx, s.base, provider, "environment create", name, nil, func(store core.EnvironmentStore) error {
		made, err = store.CreateEnvironment(ctx, name)
		return err
	})
	return made, err
}

// RemoveEnvironment removes an environment with its content. provider may be "" when only one has them.
func (s Stores) RemoveEnvironment(ctx context.Context, provider, name string) error {
	return stored(ctx, s.base, provider, "environment rm", name, nil, func(store core.EnvironmentStore) error {
		return store.RemoveEnvironment(ctx, name)
	})
}
