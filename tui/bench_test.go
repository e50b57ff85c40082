package tui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/theme"
)

// crowd returns a dashboard of n sandboxes. None of its commands run.
func crowd(b *testing.B, n int) *Model {
	b.Helper()
	m := still(b, Options{}, 200, 60)
	random := rand.New(rand.NewPCG(1, 2))
	m.Update(listedMsg{"local", service.Listing{Sandboxes: crowdOf(n, random)}})
	for range 20 {
		for _, e := range m.table.visible() {
			cpu, memory := time.Duration(random.IntN(1e9)), core.Bytes(random.IntN(1<<30))
			stats := core.Stats{Sandbox: e.box.ID, Time: atNoon(), CPU: cpu, Memory: memory}
			m.Update(sampledMsg{"local", []core.Stats{stats}})
		}
	}
	return m
}

func crowdOf(n int, random *rand.Rand) []core.Sandbox {
	boxes := make([]core.Sandbox, n)
	for i := range boxes {
		boxes[i] = core.Sandbox{
			ID: fmt.Sprintf("loc-%06d", i), Name: fmt.Sprintf("sandbox-%05d", random.IntN(1e5)), Provider: "local",
			App: []string{"api", "batch", "ci"}[i%3], Image: "ghcr.io/org/image:latest",
			State:   []core.State{core.StateRunning, core.StateRunning, core.StateExited}[random.IntN(3)],
			Created: atNoon().Add(-time.Duration(random.IntN(1e5)) * time.Second), Expires: atNoon().Add(time.Hour),
		}
	}
	return boxes
}

// A key and its frame: Update and View.
func BenchmarkKeyAndFrame(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			m := crowd(b, n)
			keys := []tea.Msg{keyPress("down"), keyPress("pgdown"), keyPress("up"), keyPress("end"), keyPress("home")}
			i := 0
			for b.Loop() {
				m.Update(keys[i%len(keys)])
				_ = m.View()
				i++
			}
		})
	}
}

// A new list of a provider and its frame.
func BenchmarkListAndFrame(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			m := crowd(b, n)
			random := rand.New(rand.NewPCG(3, 4))
			boxes := crowdOf(n, random)
			for b.Loop() {
				boxes[random.IntN(n)].LastActive = atNoon().Add(time.Duration(random.IntN(1e9)))
				m.Update(listedMsg{"local", service.Listing{Sandboxes: boxes}})
				_ = m.View()
			}
		})
	}
}

// A letter typed in the filter and its frame, then one deleted and its frame.
func BenchmarkFilterAndFrame(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			m := crowd(b, n)
			m.Update(keyPress("/"))
			for b.Loop() {
				m.Update(keyPress("7"))
				_ = m.View()
				m.Update(keyPress("backspace"))
				_ = m.View()
			}
		})
	}
}

// flooding is a provider whose sandbox has written total bytes.
type flooding struct {
	*fake.Provider

	total int
}

func (p *flooding) Logs(ctx context.Context, _ string, _ core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		line := []byte("\x1b[32mok\x1b[0m some output of a program that writes a lot of it\n")
		piece := bytes.Repeat(line, 32<<10/len(line))
		for sent := 0; sent < p.total && ctx.Err() == nil; sent += len(piece) {
			if !yield(core.LogRecord{Time: time.Now(), Stream: core.Stdout, Data: piece}, nil) {
				return
			}
		}
	}
}

// 100 MiB of output during key presses: the throughput, the latency of the keys, and the memory kept.
func BenchmarkLogFlood(b *testing.B) {
	const total = 100 << 20
	for b.Loop() {
		b.StopTimer()
		provider := &flooding{Provider: fake.New(fake.Options{}), total: total}
		open := func() (core.Provider, error) { return provider, nil }
		factory := core.Factory{Name: "fake", IDPrefix: "fak-", Open: open}
		svc := service.New(service.Options{Factories: []core.Factory{factory}})
		launch(b, svc, core.Spec{Name: "flood", Command: []string{"sleep", "1000"}})
		r := newRig(b, Options{Service: svc})
		r.m.detail.tab = tabSpec
		r.until("flood is there", r.hasRow("flood"))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		begin := time.Now()
		r.press("1")
		var waits []time.Duration
		o := &r.m.detail.output
		keys := time.NewTicker(20 * time.Millisecond)
		for o.log == nil || o.open {
			select {
			case msg := <-r.msgs:
				r.send(msg)
			case pressed := <-keys.C:
				r.send(keyPress("tab"))
				_ = r.m.View()
				waits = append(waits, time.Since(pressed))
			}
		}
		keys.Stop()
		took := time.Since(begin)
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		slices.Sort(waits)
		b.ReportMetric(float64(total)/took.Seconds()/(1<<20), "MiB/s")
		b.ReportMetric(float64(waits[len(waits)-1].Microseconds())/1000, "slowest-key-ms")
		b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "median-key-ms")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "kept-MiB")
		r.close()
		provider.Shutdown()
		_ = svc.Close()
		b.StartTimer()
	}
}

// The time from the start to the first frame on the terminal, with 1000 sandboxes.
func BenchmarkFirstFrame(b *testing.B) {
	provider := fake.New(fake.Options{})
	svc := newService(b, provider)
	for i := range 1000 {
		launch(b, svc, core.Spec{Name: fmt.Sprintf("box-%d", i)})
	}
	for b.Loop() {
		input, typing := io.Pipe()
		out := &untilText{text: "running", seen: func() { go func() { _, _ = typing.Write([]byte("q")) }() }}
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		options := Options{Service: svc, Input: input, Output: out, Theme: theme.Dark}
		if err := run(ctx, options, tea.WithWindowSize(120, 40)); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(out.at.Sub(out.begun).Microseconds())/1000, "ms-to-frame")
		_ = typing.Close()
		cancel()
	}
}

// untilText calls seen when text is drawn for the first time.
type untilText struct {
	text      string
	seen      func()
	begun, at time.Time
}

func (w *untilText) Write(p []byte) (int, error) {
	if w.begun.IsZero() {
		w.begun = time.Now()
	}
	if w.at.IsZero() && strings.Contains(string(p), w.text) {
		w.at = time.Now()
		w.seen()
	}
	return len(p), nil
}
