package docker

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

// testMain runs the tests between what all of them need and the search for goroutines that nobody waited for.
func testMain(m *testing.M) int {
	if os.Getenv("SB_TEST_BIN") == "" {
		dir, err := os.MkdirTemp("", "sb-docker-test-")
		if err == nil {
			err = buildGuest(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
