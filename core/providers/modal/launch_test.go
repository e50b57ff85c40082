//go:build linux

package modal_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// A launch whose answer was lost fails and leaves no sandbox that costs money.
func TestLaunchResponseLost(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	for name, gpu := range map[string]core.GPU{"SandboxCreateV2": {}, "SandboxCreate": {Type: "H100", Count: 1}} {
		s := spec()
		s.GPU = gpu
		for code, want := range map[codes.Code]core.Kind{
			codes.DataLoss: core.KindInternal, codes.Aborted: core.KindUnavailable,
		} {
			r.faults.Plan(name, modaltest.Fault{Code: code, Message: "the answer was lost", After: true})
			_, err := p.Launch(t.Context(), s, lease(), nil)
			if err == nil || core.KindOf(err) != want {
				t.Errorf("%s, %s: %v", name, code, err)
			}
		}
		if left, err := p.ListFiltered(t.Context(), core.ListFilter{}); err != nil || len(left) > 0 {
			t.Errorf("%s left %+v, %v", name, left, err)
		}
		// A sandbox of another launch with the same name keeps running.
		r.faults.Plan(name, modaltest.Fault{Code: codes.Unavailable, Message: "the answer was lost", After: true})
		there := launched(t, p, s)
		if _, err := p.Launch(t.Context(), s, lease(), nil); !errors.Is(err, core.KindConflict) {
			t.Errorf("%s of a name that is taken: %v", name, err)
		}
		if left, err := p.ListFiltered(t.Context(), core.ListFilter{}); err != nil || len(left) != 1 ||
			left[0].ID != there.ID {
			t.Errorf("%s: there are %+v, %v", name, left, err)
		}
		if err := p.Terminate(t.Context(), there.ID); err != nil {
			t.Error(err)
		}
	}
	// Launch also reports that the outcome is unknown.
	r.faults.Plan("SandboxCreateV2", modaltest.Fault{Code: codes.DataLoss, Message: "the answer was lost"})
	r.faults.Plan("AppList", modaltest.Fault{Code: codes.DataLoss, Message: "no list"})
	if _, err := p.Launch(t.Context(), spec(), lease(), nil); err == nil || core.KindOf(err) != core.KindInternal ||
		!strings.Contains(err.Error(), "unknown") {
		t.Errorf("%v", err)
	}
}
