package core

import (
	"context"
	"time"
)

// SecretInfo is a secret that a provider stores. Its values cannot be read back. Secret is the use of one in a spec.
type SecretInfo struct {
	// Name is the value for Secret.Ref.
	Name     string    `json:"name"`
	ID       string    `json:"id,omitempty"`
	Provider string    `json:"provider"`
	Created  time.Time `json:"created,omitzero"`
	LastUsed time.Time `json:"last_used,omitzero"`
	// Keys are its variable names, where the provider reports them.
	Keys []string `json:"keys,omitempty"`
}

// SecretOptions are the options of SecretStore.CreateSecret.
type SecretOptions struct {
	// Replace overwrites an existing secret; without it an existing one is KindConflict.
	Replace bool
}

// SecretStore stores secrets: environment variables under one name. Its capability is CapSecretStore.
type SecretStore interface {
	// Secrets returns the secrets in no order.
	Secrets(ctx context.Context) ([]SecretInfo, error)
	// CreateSecret stores values, at least one. KindConflict: see SecretOptions.
	CreateSecret(ctx context.Context, name string, values map[string]SecretValue, opts SecretOptions) (SecretInfo, error)
	// RemoveSecret removes a secret. Running sandboxes keep their values.
	RemoveSecret(ctx context.Context, name string) error
}
