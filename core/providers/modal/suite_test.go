//go:build linux

package modal_test

import (
	"testing"

	"github.com/seed-0724f904/sb/core/providertest"
)

func TestCodeSessions(t *testing.T) { providertest.RunCode(t, newRig(t, nil).open) }

func TestContract(t *testing.T) {
	t.Setenv("SB_SUITE_SECRET", "the host's")
	providertest.Run(t, newRig(t, nil).open)
}
