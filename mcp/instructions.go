package mcp

import (
	"fmt"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// instructions returns the text that a model reads once, beside the descriptions of the tools. It names served tools
// only.
func (s *Server) instructions() string {
	sentences := []string{
		"Sandboxes are isolated Linux machines for untrusted code.",
		"Launch one with sandbox_launch and use its id or name as the argument sandbox of the other tools.",
		"For a single run, run_code without a sandbox launches one and removes it.",
		fmt.Sprintf("A command that takes longer than %s keeps running; exec_wait returns the rest.", s.opts.SoftDeadline),
		fmt.Sprintf("Output beyond %d characters is cut in the middle; the linked resource has all of it.", s.opts.Budget),
	}
	switch s.opts.OnDisconnect {
	case setup.Terminate:
		sentences = append(sentences, "Sandboxes end when you disconnect.")
	case setup.Detach:
		sentences = append(sentences,
			"Sandboxes keep running when you disconnect; end those that you do not need with sandbox_terminate.")
	case setup.Lease:
		sentences = append(sentences, fmt.Sprintf("Sandboxes end %s after you disconnect.", core.Duration(s.opts.Lease)))
	}
	sentences = append(sentences, `An error names its kind; do not repeat the call after the kind "unsupported".`)
	return s.host.Words.Text(strings.Join(sentences, " "))
}
