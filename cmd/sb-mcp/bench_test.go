//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers"
	"github.com/seed-0724f904/sb/core/service"
)

// BenchmarkExecTrue compares an exec of "true" by the core with one through a server. The difference is the cost of the
// protocol.
func BenchmarkExecTrue(b *testing.B) {
	h := newHome(b)
	b.Run("core", func(b *testing.B) {
		svc := service.New(service.Options{Actor: "bench", Factories: providers.Builtin(providers.Options{
			StateDir: h.dir + "/state/sb", CacheDir: h.dir + "/cache/sb", Runtime: filepath.Join(h.bin, "sb-runtime"),
			SaveInterval: time.Minute, LogLimit: core.MiB,
		})})
		defer func() { _ = svc.Close() }()
		sb, err := svc.Sandboxes.Launch(b.Context(), core.Spec{Provider: "local"}, service.LaunchOptions{})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = svc.Sandboxes.Terminate(context.Background(), sb.ID) }()
		for b.Loop() {
			process, err := svc.Execs.Start(b.Context(), "local/"+sb.ID, core.ExecSpec{Command: []string{"true"}})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := process.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			_ = process.Close()
		}
	})
	through := func(b *testing.B, a *assistant) {
		b.Helper()
		sb := a.launch(nil)
		for b.Loop() {
			a.call("exec", args{"sandbox": sb, "argv": []string{"true"}})
		}
		b.StopTimer()
		a.call("sandbox_terminate", args{"sandbox": sb})
	}
	b.Run("stdio", func(b *testing.B) {
		a, _ := h.stdio()
		through(b, a)
	})
	b.Run("http", func(b *testing.B) {
		url, _ := h.listen("--no-auth", "--transport", "streamable-http", "--rate-limit", "-1")
		through(b, connect(b, &sdk.StreamableClientTransport{Endpoint: url + "/mcp"}))
	})
}

// BenchmarkFileRead compares the read of a small file by the core with one through a server.
func BenchmarkFileRead(b *testing.B) {
	h := newHome(b)
	a, _ := h.stdio()
	sb := a.launch(nil)
	a.call("file_write", args{"sandbox": sb, "path": "/tmp/small", "content": "a line\n"})
	b.Run("core", func(b *testing.B) {
		svc := service.New(service.Options{Actor: "bench", Factories: providers.Builtin(providers.Options{
			StateDir: h.dir + "/state/sb", CacheDir: h.dir + "/cache/sb", Runtime: filepath.Join(h.bin, "sb-runtime"),
			SaveInterval: time.Minute, LogLimit: core.MiB,
		})})
		defer func() { _ = svc.Close() }()
		for b.Loop() {
			content, err := svc.Files.ReadFile(b.Context(), "local/"+sb, "/tmp/small")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				b.Fatal(err)
			}
			_ = content.Close()
		}
	})
	b.Run("stdio", func(b *testing.B) {
		for b.Loop() {
			a.call("file_read", args{"sandbox": sb, "path": "/tmp/small"})
		}
	})
	a.call("sandbox_terminate", args{"sandbox": sb})
}

// BenchmarkCalls measures the calls per second that touch no sandbox, with 1 and with 16 clients.
func BenchmarkCalls(b *testing.B) {
	h := newHome(b)
	url, _ := h.listen("--no-auth", "--transport", "streamable-http", "--rate-limit", "-1")
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			assistants := make([]*assistant, clients)
			for i := range assistants {
				assistants[i] = connect(b, &sdk.StreamableClientTransport{Endpoint: url + "/mcp"})
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, a := range assistants {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := a.try(context.Background(), "sandbox_list", args{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// BenchmarkSessions measures the memory of a server with 50 sessions.
func BenchmarkSessions(b *testing.B) {
	h := newHome(b)
	for b.Loop() {
		url, server := h.listen("--no-auth", "--transport", "streamable-http", "--rate-limit", "-1")
		alone := resident(b, server.cmd.Process.Pid)
		for range 50 {
			if _, err := connect(b, &sdk.StreamableClientTransport{Endpoint: url + "/mcp"}).
				try(b.Context(), "sandbox_list", args{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(alone)/(1<<20), "MiB-alone")
		b.ReportMetric(float64(resident(b, server.cmd.Process.Pid))/(1<<20), "MiB-50-sessions")
	}
}

// resident returns the resident memory of a process, in bytes.
func resident(t testing.TB, pid int) int {
	t.Helper()
	var size, pages int
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
