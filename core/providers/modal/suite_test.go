//go:build linux

package modal_test

import (
	"testing"

	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

func TestCodeSessions(t *testing.T) {
	programtest.Long(t)
	providertest.RunCode(t, newRig(t, nil).open)
}

func TestContract(t *testing.T) {
	programtest.Long(t)
	t.Setenv("SB_SUITE_SECRET", "the host's")
	providertest.Run(t, newRig(t, nil).open)
}

// The stand-in's images have all files of this machine.
func TestContractDiff(t *testing.T) {
	programtest.Long(t)
	providertest.RunDiff(t, newRig(t, nil).open)
}
