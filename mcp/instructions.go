package mcp

import (
	"fmt"
	"strings"

	"github.com/seed-0724f904/sb/mcp/setup"
)

// instructions returns the text that a model reads once, beside the descriptions of the tools.
func (s *Server) instructions() string {
	var b strings.Builder
	b.WriteString("Sandboxes are isolated Linux machines for untrusted code. ")
	b.WriteString(
		"Launch one with sandbox_launch and use its id or name in every other tool; run_code without a sandbox makes one " +
			"for a single run. ",
	)
	fmt.Fprintf(
		&b, "A command that takes longer than %s keeps running: its result has running: true, and exec_wait reads the rest. ",
		s.opts.SoftDeadline,
	)
	fmt.Fprintf(&b, "Output beyond %d characters is cut in the middle; the linked resource has all of it. ", s.opts.Budget)
	switch s.opts.OnDisconnect {
	case setup.Terminate:
		b.WriteString("Sandboxes end when you disconnect. ")
	case setup.Detach:
		b.WriteString("Sandboxes keep running when you disconnect: terminate those that you do not need. ")
	case setup.Lease:
		fmt.Fprintf(&b, "Sandboxes end %s after you disconnect. ", s.opts.Lease)
	}
	b.WriteString("An error names its kind; do not retry after \"unsupported\".")
	return b.String()
}
