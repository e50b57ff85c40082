package service

import (
	"context"

	"github.com/seed-0724f904/sb/core"
)

// GivenSecrets returns the secrets of a sandbox, with their values.
func (s Sandboxes) GivenSecrets(ctx context.Context, ref string) ([]core.Secret, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	lister, err := capable[core.SecretLister](s.base, sb.Provider, "secrets")
	if err != nil {
		return nil, err
	}
	secrets, err := lister.GivenSecrets(ctx, sb.ID)
	return secrets, about("secrets", ref, sb, err)
}
