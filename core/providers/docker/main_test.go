package docker

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core/programtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(programtest.With(m, "sb-guest")) }
