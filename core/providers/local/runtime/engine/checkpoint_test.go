//go:build linux

package engine

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/program"
)

// spawn has the first process run a command and returns it with its output.
func spawn(t *testing.T, box *Box, request guest.Spawn) (*Spawned, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.SetReadDeadline(time.Now().Add(hangs)); err != nil {
		t.Fatal(err)
	}
	request.Env, request.Dir = []string{testPath}, "/"
	s, err := box.Spawn(t.Context(), request, w, w)
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return s, bufio.NewReader(r)
}

// number reads a line with a number.
func number(t *testing.T, from *bufio.Reader) int {
	t.Helper()
	line, err := from.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(line[:len(line)-1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const count = "i=0; while sleep 0.01; do i=$((i+1)); echo $i; done"

func TestSpawn(t *testing.T) {
	box := start(t, nil)
	s, out := spawn(t, box, guest.Spawn{ID: "1", Argv: []string{"sh", "-c", "id -u; pwd; exit 7"}, UID: 1000, GID: 1000})
	if n := number(t, out); n != 1000 {
		t.Errorf("it runs as %d", n)
	}
	if exit, err := ended(t, s); err != nil || exit.Code != 7 {
		t.Errorf("ended with %+v, %v", exit, err)
	}
	s, out = spawn(t, box, guest.Spawn{ID: "2", Argv: []string{"sh", "-c", "echo 5; sleep 600"}})
	number(t, out)
	if err := s.SignalGroup(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit, err := ended(t, s); err != nil || exit.Signal != syscall.SIGTERM {
		t.Errorf("ended with %+v, %v", exit, err)
	}
	// Often, for init's refusal is quicker at times than the one who asks.
	for range 100 {
		for name, want := range map[string]error{
			"no-such-program": program.ErrNotFound, "/etc/passwd": program.ErrNotExecutable,
		} {
			if _, err := box.Spawn(
				t.Context(), guest.Spawn{ID: "3", Argv: []string{name}, Env: []string{testPath}, Dir: "/"}, os.Stdout, os.Stdout,
			); !errors.Is(err, want) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if out, exit := run(t, box, "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "sh", "-c", GuestPath+
		" spawn 3>&1 </dev/null"); exit.Code == 0 || !strings.Contains(out, "permission denied") {
		t.Errorf("as another user: %q, %+v", out, exit)
	}
}

func TestCopyResumesCheckpointedProcess(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	const limit = 64
	source := start(t, func(c *Config) { c.Limits.Processes = limit })
	kept, out := spawn(t, source, guest.Spawn{ID: "1", Argv: []string{"sh", "-c", count}})
	before := number(t, out)
	exec := func() *Process {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = null.Close() }()
		process, err := source.Exec(
			t.Context(),
			Command{Argv: []string{"sleep", "600"}, Env: []string{testPath}, Dir: "/", Files: []*os.File{null, null, null}},
		)
		if err != nil {
			t.Fatal(err)
		}
		return process
	}
	outside := exec()
	run(t, source, "sh", "-c", "echo kept > /root/file; rm /usr/bin/yes")
	if err := source.Checkpoint(image); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		fork := start(t, func(c *Config) {
			c.ID += "-fork"
			c.Image = func(context.Context) (string, error) { return image, nil }
			c.Limits.Processes = limit
		})
		s, forkOut := spawn(t, fork, guest.Spawn{ID: "1", Attach: true})
		first := number(t, forkOut)
		if first <= before || number(t, forkOut) != first+1 {
			t.Errorf("the copy counts %d after %d", first, before)
		}
		if text, exit := run(
			t, fork, "sh", "-c", "cat /root/file; ls /usr/bin/yes 2>/dev/null || echo gone; pgrep sleep -a | grep -c 600",
		); text != "kept\ngone\n0\n" {
			t.Errorf("in the copy: %q, %+v", text, exit)
		}
		if err := s.SignalGroup(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if exit, err := ended(t, s); err != nil || exit.Signal != syscall.SIGKILL {
			t.Errorf("ended with %+v, %v", exit, err)
		}
		filled(t, fork, limit)
	}
	for last := before; last < before+20; {
		n := number(t, out)
		if n != last+1 {
			t.Fatalf("the source counts %d after %d", n, last)
		}
		last = n
	}
	for _, command := range []interface {
		waiter
		Signal(syscall.Signal) error
	}{kept, outside} {
		if err := command.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if exit, err := ended(t, command); err != nil || exit.Signal != syscall.SIGTERM {
			t.Errorf("in the source it ended with %+v, %v", exit, err)
		}
	}
}

// BenchmarkFork measures a copy of a Python process with 200 MB of memory, and its parts. The source is stopped for
// "kept".
func BenchmarkFork(b *testing.B) {
	source := start(b, func(c *Config) { c.Limits.Memory = 1 << 30 })
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	heap := "import os, time; b = bytearray(os.urandom(1 << 20) * 200); print(1, flush=True); time.sleep(3600)"
	_, err = source.Spawn(
		b.Context(), guest.Spawn{ID: "1", Argv: []string{"python3", "-c", heap}, Env: []string{testPath}, Dir: "/"}, w, w,
	)
	_ = w.Close()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		b.Fatal(err)
	}
	var keeping, preparing, waiting time.Duration
	for b.Loop() {
		image := filepath.Join(b.TempDir(), "image")
		began := time.Now()
		kept := make(chan error, 1)
		go func() {
			err := source.Checkpoint(image)
			keeping += time.Since(began)
			kept <- err
		}()
		fork := start(b, func(c *Config) {
			c.Limits.Memory = 1 << 30
			c.Image = func(context.Context) (string, error) {
				prepared := time.Now()
				preparing += prepared.Sub(began)
				var err error
				select {
				case err = <-kept:
				case <-b.Context().Done():
					err = b.Context().Err()
				}
				waiting += time.Since(prepared)
				return image, err
			}
		})
		b.StopTimer()
		if err := errors.Join(fork.Stop(), os.RemoveAll(image)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	for name, span := range map[string]time.Duration{"kept-ms": keeping, "prepared-ms": preparing, "waited-ms": waiting} {
		b.ReportMetric(float64(span.Milliseconds())/float64(b.N), name)
	}
}

// Root inside can answer in place of the first process. The caller's wait is bounded.
func TestSpawnDoesNotWaitForAnImpostor(t *testing.T) {
	box := start(t, nil)
	const impostor = `import os, socket
os.unlink("` + guest.SpawnSocket + `")
s = socket.socket(socket.AF_UNIX); s.bind("` + guest.SpawnSocket + `"); s.listen()
if os.fork() == 0:
    os.close(1); os.close(2)
    conns = []
    while True: conns.append(s.accept())
`
	if out, exit := run(t, box, "python3", "-c", impostor); exit.Code != 0 {
		t.Fatal(out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	request := guest.Spawn{ID: "1", Argv: []string{"true"}, Env: []string{testPath}, Dir: "/"}
	if _, err := box.Spawn(ctx, request, null, null); err == nil || t.Context().Err() != nil {
		t.Errorf("the impostor was believed: %v", err)
	}
}
