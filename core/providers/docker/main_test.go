package docker

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core/programtest"
)

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

// testMain runs the tests between what all of them need and the search for goroutines that nobody waited for.
func testMain(m *testing.M) int {
	remove, err := programtest.Build("sb-guest")
	defer remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
