package service

import (
	"context"

	"github.com/seed-0724f904/sb/core"
)

// Denials returns the refused connections of a running sandbox, the latest first.
func (s Policy) Denials(ctx context.Context, ref string) ([]core.Denial, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	reader, err := capable[core.DenialReader](s.base, sb.Provider, "denials")
	if err != nil {
		return nil, err
	}
	denials, err := reader.Denials(ctx, sb.ID)
	return denials, about("denials", ref, sb, err)
}
