//go:build linux

package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// attackVariable makes this program attack the helpers of its sandbox.
const attackVariable = "SB_TEST_ATTACK"

// attack looks for file operations and tries to take them over, or with "stop" stops them. It prints the results.
func attack(how string) {
	fmt.Println("ready")
	seen := map[int]bool{}
	for {
		there := map[int]bool{}
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			text, err := os.ReadFile(name)
			pid, numberErr := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil || numberErr != nil || !bytes.HasPrefix(text, []byte("sb-guest\x00files\x00")) {
				continue
			}
			there[pid] = true
			if seen[pid] {
				continue
			}
			seen[pid] = true
			if how == "stop" {
				fmt.Println("stopped", unix.Kill(pid, unix.SIGSTOP))
				continue
			}
			fmt.Println("traced:", takeOver(pid))
		}
		for pid := range seen {
			if !there[pid] {
				delete(seen, pid)
				fmt.Println("gone")
			}
		}
	}
}

// takeOver returns the successful ways of access to a process.
func takeOver(pid int) (ways []string) {
	if unix.PtraceSeize(pid) == nil {
		ways = append(ways, "ptrace")
	}
	// Root can still open /proc/PID/fd in gVisor, and so forge an answer. Package guest trusts no answer.
	if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err == nil {
		ways = append(ways, "mem")
		_ = f.Close()
	}
	local := make([]byte, 16)
	if _, err := unix.ProcessVMReadv(
		pid, []unix.Iovec{{Base: &local[0], Len: 16}}, []unix.RemoteIovec{{Base: 0x400000, Len: 16}}, 0,
	); err == nil {
		ways = append(ways, "process_vm_readv")
	}
	return ways
}

// attacked launches a sandbox in which root attacks. line waits for a line with this prefix and returns it.
func attacked(t *testing.T, how string) (p *Provider, id string, line func(prefix string) string) {
	t.Helper()
	p, sb := crashed(t, nil)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	if err := p.WriteFile(t.Context(), sb.ID, "/tmp/attack", program, core.WriteOptions{Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	process, err := p.Exec(
		t.Context(), sb.ID,
		core.ExecSpec{Command: []string{"/tmp/attack"}, Env: map[string]string{attackVariable: how}, Stdout: w, Stderr: w},
	)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = process.Signal(context.Background(), int(unix.SIGKILL))
		_, _ = process.Wait(context.Background())
		_ = errors.Join(process.Close(), w.Close())
	})
	line = func(what string) string {
		t.Helper()
		limit := time.NewTimer(time.Minute)
		defer limit.Stop()
		for {
			select {
			case line, ok := <-lines:
				if strings.HasPrefix(line, what) {
					return line
				}
				if !ok {
					t.Fatalf("the attacker ended before it said %q", what)
				}
			case <-limit.C:
				t.Fatalf("the attacker never said %q", what)
			}
		}
	}
	line("ready")
	return p, sb.ID, line
}

func TestRootInsideCannotTraceAFileOperation(t *testing.T) {
	p, id, line := attacked(t, "trace")
	for range 10 {
		content, hold := io.Pipe()
		written := make(chan error, 1)
		go func() { written <- p.WriteFile(t.Context(), id, "/tmp/file", content, core.WriteOptions{}) }()
		if traced := line("traced:"); traced != "traced: []" {
			t.Errorf("root inside traced sb-guest: %s", traced)
		}
		_, err := hold.Write([]byte("text"))
		if err := errors.Join(err, hold.Close(), providertest.Receive(t, written)); err != nil {
			t.Fatal(err)
		}
	}
}

// Root inside stops every helper. A call that waits for a helper ends with its caller, and the helper ends, too.
func TestStoppedFileOperationEndsWithCaller(t *testing.T) {
	programtest.Long(t)
	p, id, line := attacked(t, "stop")
	for name, do := range map[string]func(context.Context) error{
		"stat": func(ctx context.Context) error { _, err := p.Stat(ctx, id, "/tmp"); return err },
		"remove": func(ctx context.Context) error {
			err := p.Remove(ctx, id, "/tmp/nothing", true)
			if errors.Is(err, core.KindNotFound) {
				return nil // it ended before the attacker found its helper
			}
			return err
		},
		"read": func(ctx context.Context) error {
			content, err := p.ReadFile(ctx, id, "/etc/passwd")
			if err == nil {
				_, err = io.Copy(io.Discard, content)
				_ = content.Close()
			}
			return err
		},
		"write": func(ctx context.Context) error {
			return p.WriteFile(ctx, id, "/tmp/file", strings.NewReader("text"), core.WriteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() {
				for { // an operation may end first
					if err := do(ctx); err != nil {
						if ctx.Err() == nil {
							t.Errorf("it failed before it was stopped: %v", err)
						}
						result <- err
						return
					}
				}
			}()
			line("stopped <nil>")
			cancel()
			select {
			case err := <-result:
				t.Log("it ended:", err)
			case <-time.After(30 * time.Second):
				t.Fatal("the caller waits for a helper that was stopped")
			}
			line("gone")
		})
	}
}
