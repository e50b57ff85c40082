//go:build linux

package local

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A sandbox does not hold a pipe or a lock that the process of its launch inherited.
func TestSupervisorInheritsNoDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	inherited, err := unix.Dup(int(w.Fd())) // Dup does not mark it
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	crashed(t, nil)
	if err := errors.Join(unix.Close(inherited), r.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a running sandbox holds the pipe: %v", err)
	}
}
