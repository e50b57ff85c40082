//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// A command that outlasts several soft deadlines succeeds. Four default deadlines are three minutes; four of these are
// 12 s.
func TestThreeMinuteCommand(t *testing.T) {
	programtest.Long(t)
	t.Parallel()
	const deadline = 3 * time.Second
	a, _ := newHome(t).stdio("--soft-deadline", deadline.String())
	sb := a.launch(nil)
	begin := time.Now()
	got := a.call(
		"exec", args{"sandbox": sb, "command": "i=0; while [ $i -lt 12 ]; do sleep 1; i=$((i+1)); echo tick $i; done"},
	)
	calls := 1
	for ; got["running"] == true; calls++ {
		if spent := time.Since(begin); spent > 2*patience {
			t.Fatalf("it runs for %s", spent)
		}
		got = a.call("exec_wait", args{"sandbox": sb, "exec_id": got["exec_id"]})
	}
	if stdout, _ := got["stdout"].(string); got["exit_code"] != 0.0 || !strings.HasSuffix(stdout, "tick 12\n") ||
		!strings.HasPrefix(stdout, "tick 1\n") {
		t.Errorf("got %v", got)
	}
	if calls < 2 {
		t.Error("the deadline was not soft: one call took all the time")
	}
}

// A gigabyte of output stays within the budget of the reply and the memory of the server.
func TestGigabyteOfOutput(t *testing.T) {
	programtest.Long(t)
	t.Parallel()
	a, server := newHome(t).stdio("--soft-deadline", "100s")
	sb := a.launch(nil)
	got := a.call(
		"exec",
		args{"sandbox": sb, "command": "echo first; head -c 1073741824 /dev/zero | tr '\\0' 'x'; echo; echo last"},
	)
	stdout, _ := got["stdout"].(string)
	if got["running"] != false || got["exit_code"] != 0.0 || got["stdout_bytes"] != float64(1<<30+6+1+5) {
		t.Errorf("it ended as %v, %v with %v bytes", got["running"], got["exit_code"], got["stdout_bytes"])
	}
	if len(stdout) > 9000 || !strings.HasPrefix(stdout, "first\n") || !strings.HasSuffix(stdout, "\nlast\n") ||
		!strings.Contains(stdout, "left out here") {
		t.Errorf("%d characters", len(stdout))
	}
	if resident := peak(t, server.cmd.Process.Pid); resident > 256<<20 {
		t.Errorf("the server took %d MiB", resident>>20)
	}
	end := a.read("sandbox://" + sb + "/exec/1/stdout?grep=^last$")
	if !strings.Contains(end.Text, "last") {
		t.Errorf("the journal does not have the end: %.200s", end.Text)
	}
}

// peak returns the largest resident memory of a process so far, in bytes (proc(5), VmHWM).
func peak(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(status)) {
		if kilobytes, found := strings.CutPrefix(text, "VmHWM:"); found {
			n := 0
			if _, err := fmt.Sscan(kilobytes, &n); err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("the kernel does not say")
	return 0
}

// Bytes make a round trip unchanged: by content, by host path, and through a pipe of the sandbox.
func TestBinaryThereAndBack(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	dir := filepath.Join(h.dir, "open")
	data := make([]byte, 3<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in.bin"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	a, _ := h.stdio("--allow-path", dir)
	sb := a.launch(nil)
	a.call("push", args{"sandbox": sb, "local_path": filepath.Join(dir, "in.bin"), "path": "/tmp/pushed.bin"})
	small := data[:40_000]
	a.call(
		"file_write",
		args{"sandbox": sb, "path": "/tmp/written.bin", "content": base64.StdEncoding.EncodeToString(small), "base64": true},
	)
	got := a.call("exec", args{"sandbox": sb, "command": "sha256sum /tmp/pushed.bin /tmp/written.bin | cut -d' ' -f1"})
	if want := fmt.Sprintf("%x\n%x\n", sha256.Sum256(data), sha256.Sum256(small)); got["stdout"] != want {
		t.Errorf("in the sandbox: %v, want %s", got["stdout"], want)
	}
	a.call("pull", args{"sandbox": sb, "path": "/tmp/pushed.bin", "local_path": filepath.Join(dir, "out.bin")})
	if back, err := os.ReadFile(filepath.Join(dir, "out.bin")); err != nil || !bytes.Equal(back, data) {
		t.Errorf("%d bytes came back, and not the same: %v", len(back), err)
	}
	if blob := a.read("sandbox://" + sb + "/files/tmp/written.bin").Blob; !bytes.Equal(blob, small) {
		t.Errorf("the resource has %d bytes, and not the same", len(blob))
	}
	a.call("exec", args{"sandbox": sb, "command": "cat /tmp/written.bin"})
	if blob := a.read("sandbox://" + sb + "/exec/2/stdout").Blob; !bytes.Equal(blob, small) {
		t.Errorf("the output has %d bytes, and not the same", len(blob))
	}
}

func TestTwentyClientsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url, _ := h.listen("--no-auth", "--transport", "streamable-http", "--max-sandboxes", "0", "--rate-limit", "-1")
	sb := connect(t, &sdk.StreamableClientTransport{Endpoint: url + "/mcp"}).launch(nil)
	var wg sync.WaitGroup
	for i := range 20 {
		a := connect(t, &sdk.StreamableClientTransport{Endpoint: url + "/mcp"})
		wg.Go(func() {
			for j := range 5 {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				text := fmt.Sprintf("client %d call %d", i, j)
				result, err := a.try(ctx, "exec", args{"sandbox": sb, "argv": []string{"echo", text}})
				cancel()
				if err != nil || result.IsError || result.StructuredContent.(map[string]any)["stdout"] != text+"\n" {
					t.Errorf("%s: %+v, %v", text, result, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A command continues after its client is killed during a call. The next client reads all output.
func TestClientKilledMidCall(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server := h.serve()
	r := bufio.NewReader(server.out)
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(server.in, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	say(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
	)
	line(t, r)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox_launch","arguments":{"name":"dev"}}}`)
	answer(t, r, 2)
	say(
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exec","arguments":{"sandbox":"dev","command":"sleep 4; echo survived"}}}`,
	)
	until(t, "the command runs", func() bool { return strings.Contains(h.sb("ps", "mcp-dev"), "survived") })
	_ = server.in.Close()
	_ = server.out.Close()
	if err := server.wait(); err != nil {
		t.Errorf("the server ended with %v: %s", err, server.stderr)
	}
	back, _ := h.stdio()
	if got := back.call("exec_wait", args{"sandbox": "dev", "exec_id": "1"}); got["stdout"] != "survived\n" ||
		got["exit_code"] != 0.0 {
		t.Errorf("got %v", got)
	}
}

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A command continues after the server is killed. The next server has all output.
func TestServerKilledMidExec(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a, server := h.stdio()
	sb := a.launch(nil)
	got := a.call("exec", args{"sandbox": sb, "command": "echo before; sleep 4; echo after", "wait_seconds": 1})
	if err := server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.wait()
	if orphans := h.sb("ls", "--orphans", "-q"); !strings.Contains(orphans, sb) {
		t.Errorf("sb ls --orphans does not show it: %q", orphans)
	}
	back, _ := h.stdio()
	rest := back.call("exec_wait", args{"sandbox": sb, "exec_id": got["exec_id"], "cursor": got["cursor"]})
	if rest["stdout"] != "after\n" || rest["exit_code"] != 0.0 {
		t.Errorf("the rest is %v", rest)
	}
}

// The server answers or ignores malformed messages, and continues.
func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	server := newHome(t).serve()
	r := bufio.NewReader(server.out)
	answers := make(chan map[string]any, 64)
	go func() {
		defer close(answers)
		for {
			text, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			if !bytes.Contains(text, []byte(`"jsonrpc":"2.0"`)) {
				t.Errorf("stdout has something that is no protocol: %q", text)
			}
			if bytes.Contains(text, []byte(`"alive"`)) {
				answers <- map[string]any{}
			}
		}
	}()
	random := rand.New(rand.NewPCG(1, 2))
	seeds := []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"sandbox":"x","command":"true"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"sandbox://x/files/etc/passwd?offset=-1"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
		`{"jsonrpc":"2.0","id":4,"result":{}}`, `{"jsonrpc":"2.0","id":{"a":1},"error":{"code":"x"}}`,
		`[{"jsonrpc":"2.0","id":5,"method":"ping"}]`,
		`{"jsonrpc":"2.0","id":6,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"sandbox://{id}"},"argument":{"name":"id","value":"x"}}}`,
	}
	for range 1000 {
		message := []byte(seeds[random.IntN(len(seeds))])
		for range 1 + random.IntN(6) {
			switch at := random.IntN(len(message)); random.IntN(4) {
			case 0:
				message[at] = byte(random.IntN(256))
			case 1:
				message = append(message[:at], message[min(len(message), at+1+random.IntN(20)):]...)
			case 2:
				message = append(message[:at], append([]byte(`"},[{`), message[at:]...)...)
			case 3:
				message = append(message, message[at:]...)
			}
			if len(message) == 0 {
				message = []byte("{")
			}
		}
		if _, err := server.in.Write(append(bytes.ReplaceAll(message, []byte("\n"), nil), '\n')); err != nil {
			t.Fatalf("the server is gone: %v\n%s", err, server.stderr)
		}
	}
	if _, err := io.WriteString(server.in, `{"jsonrpc":"2.0","id":"alive","method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-answers:
	case <-time.After(patience):
		t.Errorf("the server no longer answers: %s", server.stderr)
	}
	_ = server.in.Close()
	for range answers {
	}
	if err := server.wait(); err != nil || strings.Contains(server.stderr.String(), "panic") {
		t.Errorf("it ended with %v: %s", err, server.stderr)
	}
}

// With any amount of logging, stdout carries the protocol only.
func TestStdoutCarriesProtocolOnly(t *testing.T) {
	t.Parallel()
	server := newHome(t).serve("--log-level", "debug")
	r := bufio.NewReader(server.out)
	for i, text := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sandbox_launch","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"no_such_tool"}}`,
		`no json`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"sandbox_terminate","arguments":{"all":true}}}`,
	} {
		if _, err := io.WriteString(server.in, text+"\n"); err != nil {
			t.Fatal(err)
		}
		if text != "no json" {
			answer(t, r, i)
		}
	}
	_ = server.in.Close()
	for {
		if _, err := r.Peek(1); err != nil {
			break
		}
		line(t, r)
	}
	if err := server.wait(); err != nil || !strings.Contains(server.stderr.String(), "level=") {
		t.Errorf("it ended with %v and logged %q", err, server.stderr)
	}
}

// After SIGTERM a server completes running calls and leaves no process.
func TestGracefulShutdown(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url, server := h.listen("--no-auth", "--transport", "streamable-http")
	a := connect(t, &sdk.StreamableClientTransport{Endpoint: url + "/mcp"})
	sb := a.launch(nil)
	ended := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		result, err := a.try(ctx, "exec", args{"sandbox": sb, "command": "sleep 2; echo finished"})
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- textOf(result)
	}()
	until(t, "the command runs", func() bool { return strings.Contains(h.sb("ps", sb), "finished") })
	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text := providertest.Receive(t, ended); !strings.Contains(text, "finished") {
		t.Errorf("the call under way ended as %q", text)
	}
	if err := server.wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 143 && exit.ExitCode() != 130 {
			t.Errorf("it ended with %v: %s", err, server.stderr)
		}
	}
	if response, err := http.Get(url + "/healthz"); err == nil {
		_ = response.Body.Close()
		t.Error("it still answers")
	}
}
