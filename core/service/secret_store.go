package service

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Secrets lists the secrets that a provider keeps; "" means all providers.
func (s Stores) Secrets(ctx context.Context, provider string) (Inventory[core.SecretInfo], error) {
	return inventory(ctx, s.base, provider, "secret ls", core.SecretStore.Secrets)
}

// CreateSecret has a provider keep variables under a name. provider may be "" when only one that is set up keeps
// secrets. The audit log has the variables' names only.
func (s Stores) CreateSecret(
	ctx context.Context, provider, name string, values map[string]core.SecretValue, opts core.SecretOptions,
) (made core.SecretInfo, err error) {
	if len(values) == 0 {
		return core.SecretInfo{}, core.Invalid("secret", "it has no variables")
	}
	for key, value := range values {
		if !core.EnvName(key) || strings.ContainsRune(value.Reveal(), 0) {
			return core.SecretInfo{}, core.Invalid("secret", "%q is not an environment variable", key)
		}
	}
	args := map[string]any{"keys": slices.Sorted(maps.Keys(values)), "replace": opts.Replace}
	err = stored(ctx, s.base, provider, "secret create", name, args, func(store core.SecretStore) error {
		made, err = store.CreateSecret(ctx, name, values, opts)
		return err
	})
	return made, err
}

// RemoveSecret removes a secret. provider may be "" when only one that is set up keeps secrets.
func (s Stores) RemoveSecret(ctx context.Context, provider, name string) error {
	return stored(ctx, s.base, provider, "secret rm", name, nil, func(store core.SecretStore) error {
		return store.RemoveSecret(ctx, name)
	})
}
