//go:build linux

package modaltest_test

import (
	"errors"
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// A sandbox's files become an image when its command exits, when Terminate ends it and when its lifetime is over. This
// holds for both generations.
func TestExitSnapshots(t *testing.T) {
	programtest.Long(t)
	r := newRig(t, nil)
	enabled := map[string]any{"enable_exit_snapshot": true}
	write := []string{"sh", "-c", "echo kept >/root/file; exit 3"}
	for name, test := range map[string]struct {
		params    sdk.SandboxCreateParams
		terminate bool
	}{
		"exited":     {params: sdk.SandboxCreateParams{Command: write}},
		"terminated": {params: sdk.SandboxCreateParams{}, terminate: true},
		"lifetime": {
			params: sdk.SandboxCreateParams{
				Command: []string{"sh", "-c", "echo kept >/root/file; exec sleep 1000"}, Timeout: 3 * time.Second,
			},
		},
		"of the first":         {params: sdk.SandboxCreateParams{Command: write, GPU: "T4"}},
		"with memory snapshot": {params: sdk.SandboxCreateParams{Command: write, ExperimentalEnableSnapshot: true}},
	} {
		t.Run(name, func(t *testing.T) {
			test.params.ExperimentalOptions = enabled
			sb := r.create(&test.params)
			if test.terminate {
				run(t, sb, "echo kept >/root/file")
				now := time.Duration(0)
				_, err := sb.ExperimentalGetExitSnapshot(t.Context(), &sdk.SandboxExperimentalGetExitSnapshotParams{Timeout: &now})
				if _, pending := errors.AsType[sdk.TimeoutError](err); !pending {
					t.Errorf("the exit snapshot of a running sandbox: %v", err)
				}
				if _, err := sb.Terminate(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			image, err := sb.ExperimentalGetExitSnapshot(providertest.Patient(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			next, err := r.client.Sandboxes.Create(t.Context(), r.app, image, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = next.Detach() })
			if out := run(t, next, "cat /root/file"); out != "kept\n" {
				t.Errorf("the exit snapshot has %q", out)
			}
		})
	}

	_, err := r.create(nil).ExperimentalGetExitSnapshot(t.Context(), nil)
	if _, refused := errors.AsType[sdk.InvalidError](err); !refused {
		t.Errorf("without the option: %v", err)
	}
}
