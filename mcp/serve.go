package mcp

import (
	"context"

	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// Serve runs the configured server until ctx ends or its client disconnects. It is a setup.Serve.
func Serve(ctx context.Context, run setup.Run) error {
	s, err := New(run.Service, run.Log, run.Options)
	if err != nil {
		return err
	}
	defer s.Close()
	if tools.OverHTTP(run.Options) {
		return s.ServeWeb(ctx, run.Err)
	}
	return s.ServeStdio(ctx, run.In, run.Out)
}
