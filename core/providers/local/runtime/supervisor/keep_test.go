//go:build linux

package supervisor

import (
	"strings"
	"testing"
)

func TestOverLimit(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		used, beside int64 // in MiB, of a limit of 512
		says         string
	}{
		{512, 20, ""},
		{1, 700, ""},
		{512, 256, ""},
		{513, 20, "memory use of 513MiB is over"},
		{512, 257, "257MiB that its kernel"},
		{1, 768, "768MiB that its kernel"},
	} {
		if got := overLimit(test.used*mib, test.beside*mib, 512*mib); !strings.Contains(got, test.says) ||
			(got == "") != (test.says == "") {
			t.Errorf("%d and %d: %q", test.used, test.beside, got)
		}
	}
}
