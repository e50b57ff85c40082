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
		sandboxTools(), execTools(), fileTools(), searchTools(), transferTools(), reviewTools(), packageTools(),
		lifecycleTools(), costTools(),
		stateTools(), moveTools(), networkTools(), storeTools(), imageTools(), linkTools(),
	)
}

// Named returns the tool of sb with a name, which must exist.
func Named(name string) Tool {
	all := Catalogue()
	return all[slices.IndexFunc(all, func(t Tool) bool { return t.Name == name })]
}

// Select returns sb's tools that the options select.
func Select(opts setup.Options) ([]Tool, error) {
	if len(opts.Toolsets)+len(opts.Tools) == 0 {
		opts.Toolsets = []string{setup.Default}
	}
	wanted := setup.Selection{
		Toolsets: opts.Toolsets, Tools: opts.Tools, Exclude: opts.Exclude, ReadOnly: opts.ReadOnly,
	}
	all := Catalogue()
	if err := Check(all, wanted); err != nil {
		return nil, err
	}
	tools := slices.DeleteFunc(all, func(t Tool) bool { return !Wanted(t, wanted, OverHTTP(opts)) })
	if len(tools) == 0 {
		return nil, core.Errorf(core.KindUsage, "mcp", "", "no tool is left to serve").
			WithHint("read-only serves only tools that change nothing; add toolsets")
	}
	return tools, nil
}

// Check returns an error if a selection has an unknown name. all are the tools that it can name.
func Check(all []Tool, wanted setup.Selection) error {
	for _, name := range wanted.Toolsets {
		if !slices.Contains(setup.Toolsets(), name) {
			return core.Errorf(core.KindUsage, "mcp", "", "there is no toolset %q", name).
				WithHint("the toolsets are %s", strings.Join(setup.Toolsets(), ", "))
		}
	}
	for _, name := range slices.Concat(wanted.Tools, wanted.Exclude) {
		if !slices.ContainsFunc(all, func(t Tool) bool { return t.Name == name }) {
			names := make([]string, len(all))
			for i, t := range all {
				names[i] = t.Name
			}
			return core.Errorf(core.KindUsage, "mcp", "", "there is no tool %q", name).
				WithHint("the tools are %s", strings.Join(names, ", "))
		}
	}
	return nil
}

// Wanted reports whether a selection has a tool.
func Wanted(t Tool, s setup.Selection, overHTTP bool) bool {
	if slices.Contains(s.Exclude, t.Name) || s.ReadOnly && !t.ReadOnly {
		return false
	}
	return len(s.Toolsets)+len(s.Tools) == 0 || slices.Contains(s.Tools, t.Name) ||
		slices.Contains(s.Toolsets, setup.All) || slices.Contains(s.Toolsets, t.Toolset) ||
		slices.Contains(s.Toolsets, setup.Default) && (!t.Extra || t.Toolset == setup.Links && overHTTP)
}

// OverHTTP reports whether clients connect over HTTP and transfer files by links.
func OverHTTP(opts setup.Options) bool {
	return opts.Transport == setup.StreamableHTTP || opts.Transport == setup.SSE
}
