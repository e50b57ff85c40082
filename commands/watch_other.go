//go:build !unix

package commands

import "context"

// watched runs a program that has the terminal for itself.
func (a *App) watched(ctx context.Context, run func(context.Context) error) error { return run(ctx) }
