//go:build linux

package modaltest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

func TestParseFault(t *testing.T) {
	got, err := modaltest.ParseFault("SandboxCreateV2=RESOURCE_EXHAUSTED,times=2,retry-after=1500ms")
	fault := modaltest.Fault{
		Code: codes.ResourceExhausted, Message: "an injected fault", RetryAfter: 1500 * time.Millisecond,
	}
	if diff := cmp.Diff(
		modaltest.PlannedFault{Method: "SandboxCreateV2", Faults: []modaltest.Fault{fault, fault}}, got,
	); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{
		"", "X", "X=", "=UNAVAILABLE", "X=OK", "X=NO_SUCH", "X=UNAVAILABLE,", "X=UNAVAILABLE,times=0",
		"X=UNAVAILABLE,times=-1", "X=UNAVAILABLE,retry-after=1", "X=UNAVAILABLE,soon",
	} {
		if _, err := modaltest.ParseFault(text); !errors.Is(err, core.KindUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
