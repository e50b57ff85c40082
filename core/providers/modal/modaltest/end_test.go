//go:build linux

package modaltest_test

import (
	"testing"
	"time"
)

// A server can end while commands wait for input, and while output waits for a reader.
func TestServerEndsUnderCommands(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(nil)
	for _, argv := range [][]string{
		{"/__modal/.bin/modal-sandbox-fs-tools", `{"WriteFile":{"path":"/tmp/never"}}`},
		{"/__modal/.bin/modal-sandbox-fs-tools", `{"ReadFile":{"path":"/dev/zero"}}`},
		{"cat"},
		{"cat", "/dev/zero"},
	} {
		if _, err := sb.Exec(t.Context(), argv, nil); err != nil {
			t.Fatalf("%v: %v", argv, err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- r.server.Close() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the server does not end")
	}
}
