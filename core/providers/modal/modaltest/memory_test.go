//go:build linux

package modaltest_test

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// counting writes increasing numbers; only its memory has the current one.
const counting = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"

// numbers reads numbers until one is at least least, and returns the first and the last.
func numbers(t *testing.T, from io.Reader, least int) (first, last int) {
	t.Helper()
	for scanner := bufio.NewScanner(from); scanner.Scan(); {
		n, err := strconv.Atoi(scanner.Text())
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = n
		}
		if last = n; last >= least {
			return first, last
		}
	}
	t.Fatalf("its output ended after %d", last)
	return 0, 0
}

// A process continues with its memory in a restored sandbox. This holds for each generation, and after the first
// sandbox was terminated.
func TestMemorySnapshots(t *testing.T) {
	programtest.Long(t)
	r := newRig(t, nil)
	for name, gpu := range map[string]string{"first": "T4", "second": ""} {
		t.Run(name, func(t *testing.T) {
			sb := r.create(&sdk.SandboxCreateParams{
				Name: "counter-" + name, ExperimentalEnableSnapshot: true, Command: []string{"sh", "-c", counting}, GPU: gpu,
				Env: map[string]string{"COLOR": "blue"}, Tags: map[string]string{"team": "a"}, Workdir: "/srv",
			})
			_, before := numbers(t, sb.Stdout, 5)
			run(t, sb, "echo kept >/srv/file")
			kept, err := sb.ExperimentalSnapshot(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.client.Sandboxes.ExperimentalFromSnapshot(t.Context(), kept, nil); err == nil {
				t.Error("there are two sandboxes of one name")
			}
			run(t, sb, "echo later >/srv/file")
			numbers(t, sb.Stdout, before+5) // the source keeps running
			if code, err := sb.Terminate(t.Context(), &sdk.SandboxTerminateParams{Wait: true}); err != nil || code != 137 {
				t.Fatal(code, err)
			}
			for range 2 {
				found, err := r.client.SandboxSnapshots.FromID(t.Context(), kept.SnapshotID, nil)
				if err != nil {
					t.Fatal(err)
				}
				again, err := r.client.Sandboxes.ExperimentalFromSnapshot(
					t.Context(), found, &sdk.SandboxExperimentalFromSnapshotParams{Name: new("")},
				)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = again.Detach() })
				if got := run(t, again, "cat file; echo $COLOR"); got != "kept\nblue\n" {
					t.Errorf("in the restored one: %q", got)
				}
				if first, _ := numbers(t, again.Stdout, before+20); first < before {
					t.Errorf("the process started over: %d after %d", first, before)
				}
				if tags, err := again.GetTags(t.Context(), nil); err != nil || tags["team"] != "a" {
					t.Errorf("its tags are %v, %v", tags, err)
				}
				if _, err := again.Terminate(t.Context(), &sdk.SandboxTerminateParams{Wait: true}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A sandbox with memory snapshots ends like others and keeps its output. A snapshot of a sandbox without that option is
// rejected.
func TestMemorySnapshotsEnd(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(&sdk.SandboxCreateParams{
		ExperimentalEnableSnapshot: true, Command: []string{"sh", "-c", "echo out; echo err >&2; sleep 0.2; exit 7"},
	})
	out, err := io.ReadAll(sb.Stdout)
	if err != nil || string(out) != "out\n" {
		t.Errorf("%q, %v", out, err)
	}
	complaints, err := io.ReadAll(sb.Stderr)
	if err != nil || string(complaints) != "err\n" {
		t.Errorf("%q, %v", complaints, err)
	}
	if code, err := sb.Wait(providertest.Patient(t), nil); err != nil || code != 7 {
		t.Errorf("it ended with %d, %v", code, err)
	}
	if _, err := sb.ExperimentalSnapshot(t.Context(), nil); err == nil {
		t.Error("an ended sandbox was kept")
	}
	killed := r.create(&sdk.SandboxCreateParams{
		ExperimentalEnableSnapshot: true, Command: []string{"sleep", "600"}, Timeout: 2 * time.Second,
	})
	if code, err := killed.Wait(providertest.Patient(t), nil); err != nil || code != 124 {
		t.Errorf("one whose time is over ended with %d, %v", code, err)
	}
	if _, err := r.create(nil).ExperimentalSnapshot(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "not created with snapshots enabled") {
		t.Errorf("one that may not be kept: %v", err)
	}
	found, err := r.client.SandboxSnapshots.FromID(t.Context(), "sn-01ARZ3NDEKTSV4RRFFQ69G5FAV", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.client.Sandboxes.ExperimentalFromSnapshot(t.Context(), found, nil)
	if _, missing := errors.AsType[sdk.NotFoundError](err); !missing && (err == nil ||
		!strings.Contains(err.Error(), "not found")) {
		t.Errorf("one that is not there: %v", err)
	}
}
