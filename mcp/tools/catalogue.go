package tools

import (
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// Catalogue returns every tool of sb, in display order.
func Catalogue() []Tool {
	return slices.Concat(
		sandboxTools(), execTools(), fileTools(), transferTools(), packageTools(), lifecycleTools(), costTools(),
		stateTools(), moveTools(), networkTools(), storeTools(), linkTools(),
	)
}

// Select returns sb's tools that the options select.
func Select(opts setup.Options) ([]Tool, error) {
	all := Catalogue()
	if len(opts.Toolsets)+len(opts.Tools) == 0 {
		opts.Toolsets = []string{setup.Default}
	}
	for _, name := range opts.Toolsets {
		if !slices.Contains(setup.Toolsets(), name) {
			return nil, core.Errorf(core.KindUsage, "mcp", "", "there is no toolset %q", name).
				WithHint("the toolsets are %s", strings.Join(setup.Toolsets(), ", "))
		}
	}
	for _, name := range opts.Tools {
		if !slices.ContainsFunc(all, func(t Tool) bool { return t.Name == name }) {
			names := make([]string, len(all))
			for i, t := range all {
				names[i] = t.Name
			}
			return nil, core.Errorf(core.KindUsage, "mcp", "", "there is no tool %q", name).
				WithHint("the tools are %s", strings.Join(names, ", "))
		}
	}
	tools := slices.DeleteFunc(all, func(t Tool) bool {
		wanted := slices.Contains(opts.Tools, t.Name) || slices.Contains(opts.Toolsets, setup.All) ||
			slices.Contains(opts.Toolsets, t.Toolset) || slices.Contains(opts.Toolsets, setup.Default) && (!t.Extra ||
			t.Toolset == setup.Links && OverHTTP(opts))
		return !wanted || opts.ReadOnly && !t.ReadOnly
	})
	if len(tools) == 0 {
		return nil, core.Errorf(core.KindUsage, "mcp", "", "no tool is left to serve").
			WithHint("read-only serves only tools that change nothing; add toolsets")
	}
	return tools, nil
}

// OverHTTP reports whether clients connect over HTTP and transfer files by links.
func OverHTTP(opts setup.Options) bool {
	return opts.Transport == setup.StreamableHTTP || opts.Transport == setup.SSE
}
