package service

import (
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// unsupported is the error of an operation on a sandbox whose provider lacks a capability. flag is the part of the
// command line that needs it; "" is the operation itself.
func (s *base) unsupported(provider, op, flag string, want core.Capability) error {
	if flag == "" {
		flag = strconv.Quote(op)
	}
	e := core.Errorf(core.KindUnsupported, op, provider, "provider %q does not support %s", provider, flag)
	var hints []string
	if able := s.able(want); len(able) > 0 {
		hints = append(hints, "supported by "+strings.Join(able, " and "))
	}
	if want == core.CapCheckpoint || want == core.CapFork {
		if caps, err := (Providers{s}).Capabilities(provider); err == nil && caps.Can(core.CapSnapshots) {
			hints = append(hints, "sb snapshot saves the files without the memory")
		}
	}
	return e.WithHint("%s", strings.Join(hints, "; "))
}

// unsupportedAt is unsupported for an operation with a provider of the caller's choice.
func (s *base) unsupportedAt(provider, op string, want core.Capability) error {
	return core.Errorf(core.KindUnsupported, op, provider, "provider %q does not support %q", provider, op).
		WithHint("%s", useProvider(s.able(want)))
}

// useProvider is the hint to use one of the named providers, or "" without any.
func useProvider(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "use --provider " + strings.Join(names, " or ")
}
