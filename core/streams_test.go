package core_test

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// Owned files stay open until release, even if the caller closes its files. Streams that are not files are passed
// through.
func TestOwnStreams(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var stderr bytes.Buffer
	own, release := core.Streams{Stdout: w, Stderr: &stderr, Replay: true}.Own()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(own.Stdout, "kept"); err != nil {
		t.Fatal(err)
	}
	release()
	got, err := io.ReadAll(r) // it ends because no process has the pipe
	if err != nil || string(got) != "kept" || own.Stdin != nil || own.Stderr != &stderr || !own.Replay {
		t.Errorf("%q, %v, %+v", got, err, own)
	}
}
