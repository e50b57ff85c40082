package core

import (
	"context"
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
