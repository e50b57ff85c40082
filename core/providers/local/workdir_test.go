//go:build linux

package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// The error is about the directory, not about the program.
func TestNoSuchWorkdir(t *testing.T) {
	p, sb := crashed(t, nil)
	for what, spec := range map[string]core.ExecSpec{
		"a command": {}, "a detached one": {Detach: true}, "one on a terminal": {TTY: true},
	} {
		spec.Command, spec.Workdir = []string{"true"}, "/no/such/directory"
		process, err := p.Exec(t.Context(), sb.ID, spec)
		if !errors.Is(err, core.KindNotFound) || !strings.Contains(err.Error(), spec.Workdir) {
			t.Errorf("%s: %v, %v", what, process, err)
		}
	}
	execs, err := p.Execs(t.Context(), sb.ID)
	if err != nil || len(execs) != 3 {
		t.Fatalf("%+v, %v", execs, err)
	}
	for _, e := range execs {
		if e.Exit == nil || e.Exit.Code != 125 {
			t.Errorf("%+v does not say how it ended", e)
		}
	}
}
