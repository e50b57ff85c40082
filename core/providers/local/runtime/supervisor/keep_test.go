//go:build linux

package supervisor

import (
	"strings"
	"testing"
)

func TestOverLimit(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		used, overhead int64 // in MiB, of a limit of 512
		message        string
	}{
		{512, 20, ""},
		{1, 700, ""},
		{512, 256, ""},
		{513, 20, "memory use of 513MiB exceeded"},
		{512, 257, "257MiB of its kernel"},
		{1, 768, "768MiB of its kernel"},
	} {
		if got := overLimit(test.used*mib, test.overhead*mib, 512*mib); !strings.Contains(got, test.message) ||
			(got == "") != (test.message == "") {
			t.Errorf("%d and %d: %q", test.used, test.overhead, got)
		}
	}
}
