package core

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// SecretInfo is a secret that a provider keeps. Nobody gets its values back; Secret is one that is used.
type SecretInfo struct {
	// Name is what Secret.Ref takes.
	Name     string    `json:"name"`
	ID       string    `json:"id,omitempty"`
	Provider string    `json:"provider"`
	Created  time.Time `json:"created,omitzero"`
	LastUsed time.Time `json:"last_used,omitzero"`
	// Keys are the variables in it, where the provider tells them.
	Keys []string `json:"keys,omitempty"`
}

// SecretOptions say how a secret is made.
type SecretOptions struct {
	// Replace takes the place of one that exists; else that is KindConflict.
	Replace bool
}

// SecretStore keeps secrets: environment variables under one name. Its capability is CapSecretStore.
type SecretStore interface {
	// Secrets returns them in no order.
	Secrets(ctx context.Context) ([]SecretInfo, error)
	// CreateSecret keeps values, of which there is at least one. KindConflict: see SecretOptions.
	CreateSecret(ctx context.Context, name string, values map[string]SecretValue, opts SecretOptions) (SecretInfo, error)
	// RemoveSecret removes one. Sandboxes that run keep what they have.
	RemoveSecret(ctx context.Context, name string) error
}

// Secrets lists the secrets that a provider keeps; "" asks all providers.
func (s *Service) Secrets(ctx context.Context, provider string) (Inventory[SecretInfo], error) {
	return inventory(ctx, s, provider, "secret ls", CapSecretStore, SecretStore.Secrets)
}

// CreateSecret has a provider keep variables under a name. provider may be "" when only one that is set up keeps secrets.
// The audit log has the variables' names only.
func (s *Service) CreateSecret(ctx context.Context, provider, name string, values map[string]SecretValue, opts SecretOptions) (made SecretInfo, err error) {
	if len(values) == 0 {
		return SecretInfo{}, invalid("secret", "it has no variables")
	}
	for key, value := range values {
		if !envName(key) || strings.ContainsRune(value.Reveal(), 0) {
			return SecretInfo{}, invalid("secret", "%q is not an environment variable", key)
		}
	}
	args := map[string]any{"keys": slices.Sorted(maps.Keys(values)), "replace": opts.Replace}
	err = stored(ctx, s, provider, "secret create", name, CapSecretStore, args, func(store SecretStore) error {
		made, err = store.CreateSecret(ctx, name, values, opts)
		return err
	})
	return made, err
}

// RemoveSecret removes a secret. provider may be "" when only one that is set up keeps secrets.
func (s *Service) RemoveSecret(ctx context.Context, provider, name string) error {
	return stored(ctx, s, provider, "secret rm", name, CapSecretStore, nil, func(store SecretStore) error {
		return store.RemoveSecret(ctx, name)
	})
}
