package layer_test

import (
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func sorted(all map[string]string) []string { return slices.Sorted(maps.Keys(all)) }

// blocks returns the size of a file on disk in bytes.
func blocks(t testing.TB, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}
