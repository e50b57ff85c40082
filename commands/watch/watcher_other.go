//go:build !unix

package commands

import (
	"context"

	"github.com/seed-0724f904/sb/tui"
)

// watched runs a program that has the terminal for itself.
func watched(ctx context.Context, a *App, run func(ctx context.Context, equip func(*tui.Options)) error) error {
	return run(ctx, func(*tui.Options) {})
}
