package mcp

import (
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

func compatTools(opts setup.Options) ([]Tool, error) {
	return nil, core.Errorf(core.KindUsage, "mcp", "", "no %s", opts.Compat)
}
