//go:build linux

package modaltest_test

import (
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core/providertest"
)

// A request can filter an entry command's output by time, source, text and number of lines.
func TestLogs(t *testing.T) {
	r := newRig(t, nil)
	begin := time.Now()
	sb := r.create(&sdk.SandboxCreateParams{
		Command: []string{"sh", "-c", "echo one; read go; echo two >&2; read go; echo three"},
	})
	collect := func(entries iter.Seq2[sdk.LogEntry, error], err error) []string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{}
		for entry, err := range entries {
			if err != nil {
				t.Fatal(err)
			}
			if entry.Timestamp.Before(begin) || entry.Timestamp.After(time.Now()) {
				t.Errorf("%q was written at %s", entry.Message, entry.Timestamp)
			}
			lines = append(lines, string(entry.Source)+" "+entry.Message)
		}
		return lines
	}
	// The two streams have no common order, so each line must arrive before the next is written.
	written := func(lines int) {
		t.Helper()
		for len(collect(sb.Logs.Tail(t.Context(), nil))) < lines {
			time.Sleep(10 * time.Millisecond)
		}
	}
	goOn := func() {
		t.Helper()
		if _, err := sb.Stdin.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
	}
	written(1)
	goOn()
	written(2)
	middle := time.Now()
	goOn()
	if code, err := sb.Wait(providertest.Patient(t), nil); err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	for _, tt := range []struct {
		name string
		got  []string
		want []string
	}{
		{"all", collect(sb.Logs.Fetch(t.Context(), begin, nil)), []string{"stdout one\n", "stderr two\n", "stdout three\n"}},
		{"since", collect(sb.Logs.Fetch(t.Context(), middle, nil)), []string{"stdout three\n"}},
		{
			"until", collect(sb.Logs.Fetch(t.Context(), begin, &sdk.SandboxLogFetchParams{Until: &middle})),
			[]string{"stdout one\n", "stderr two\n"},
		},
		{
			"source", collect(sb.Logs.Fetch(t.Context(), begin, &sdk.SandboxLogFetchParams{Source: sdk.LogSourceStderr})),
			[]string{"stderr two\n"},
		},
		{
			"text", collect(sb.Logs.Fetch(t.Context(), begin, &sdk.SandboxLogFetchParams{SearchText: "thr"})),
			[]string{"stdout three\n"},
		},
		{"tail", collect(sb.Logs.Tail(t.Context(), &sdk.LogTailParams{Entries: 1})), []string{"stdout three\n"}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
