package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// Catalogue is every tool of sb's own, in the order in which they are shown.
func Catalogue() []Tool {
	return slices.Concat(sandboxTools(), execTools(), fileTools(), transferTools(), packageTools(), lifecycleTools(), costTools(), stateTools(), moveTools(), networkTools(), storeTools(), linkTools())
}

// selectTools picks the tools that options ask for.
func selectTools(opts setup.Options) ([]Tool, error) {
	if opts.Compat != "" {
		return compatTools(opts)
	}
	all := Catalogue()
	if len(opts.Toolsets)+len(opts.Tools) == 0 {
		opts.Toolsets = []string{setup.Default}
	}
	for _, name := range opts.Toolsets {
		if !slices.Contains(setup.Toolsets(), name) {
			return nil, core.Errorf(core.KindUsage, "mcp", "", "there is no toolset %q", name).WithHint("the toolsets are %s", strings.Join(setup.Toolsets(), ", "))
		}
	}
	for _, name := range opts.Tools {
		if !slices.ContainsFunc(all, func(t Tool) bool { return t.Name == name }) {
			names := make([]string, len(all))
			for i, t := range all {
				names[i] = t.Name
			}
			return nil, core.Errorf(core.KindUsage, "mcp", "", "there is no tool %q", name).WithHint("the tools are %s", strings.Join(names, ", "))
		}
	}
	tools := slices.DeleteFunc(all, func(t Tool) bool {
		wanted := slices.Contains(opts.Tools, t.Name) || slices.Contains(opts.Toolsets, setup.All) ||
			slices.Contains(opts.Toolsets, t.Toolset) || slices.Contains(opts.Toolsets, setup.Default) && (!t.Extra || t.Toolset == setup.Links && overHTTP(opts))
		return !wanted || opts.ReadOnly && !t.ReadOnly
	})
	if len(tools) == 0 {
		return nil, core.Errorf(core.KindUsage, "mcp", "", "no tool is left to serve").WithHint("read-only leaves those that change nothing; take more toolsets")
	}
	return tools, nil
}

// overHTTP says whether clients come over HTTP, where files travel by links.
func overHTTP(opts setup.Options) bool {
	return opts.Transport == setup.StreamableHTTP || opts.Transport == setup.SSE
}

// instructions tell a model, once, what the tools' own descriptions do not repeat.
func (s *Server) instructions() string {
	var b strings.Builder
	b.WriteString("Sandboxes are isolated Linux machines for code that nobody has to trust. ")
	b.WriteString("Launch one with sandbox_launch and use its id or name in every other tool; run_code without a sandbox makes one for a single run. ")
	fmt.Fprintf(&b, "A command that takes longer than %s goes on by itself: its result says running: true and exec_wait reads on. ", s.opts.SoftDeadline)
	fmt.Fprintf(&b, "Output beyond %d characters is cut in the middle; the linked resource has the whole. ", s.opts.Budget)
	switch s.opts.OnDisconnect {
	case setup.Terminate:
		b.WriteString("Sandboxes end when you disconnect. ")
	case setup.Detach:
		b.WriteString("Sandboxes stay when you disconnect: terminate what is not needed. ")
	case setup.Lease:
		fmt.Fprintf(&b, "Sandboxes end %s after you disconnect. ", s.opts.Lease)
	}
	b.WriteString("An error names its kind; \"unsupported\" will not change by trying again.")
	return b.String()
}
