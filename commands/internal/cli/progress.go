package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// progressDelay is how long an operation runs before its progress is shown.
const progressDelay = 500 * time.Millisecond

// Notice prints a sentence to stderr.
func (a *App) Notice(text string) { _, _ = fmt.Fprintln(a.Streams.Err, "sb: "+text) }

// Progress shows the steps of a long operation on stderr. On a terminal it updates one line, after progressDelay.
// Elsewhere it prints one line for each rare step. The caller calls stop at the end.
func (a *App) Progress() (report core.ProgressFunc, stop func()) {
	if !a.Streams.ErrTTY() {
		return func(p core.Progress) {
			if p.Rare || p.Log {
				end := " ..."
				if p.Log {
					end = ""
				}
				_, _ = fmt.Fprintf(a.Streams.Err, "%s%s\n", output.Clean(p.Step), end)
			}
		}, func() {}
	}
	var (
		mu    sync.Mutex
		last  string
		shown bool
		over  bool
	)
	show := func() {
		if last != "" && !over {
			shown = true
			_, _ = fmt.Fprintf(a.Streams.Err, "\r\x1b[K%s ...", last)
		}
	}
	begin := time.AfterFunc(progressDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		shown = true
		show()
	})
	report = func(p core.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if p.Log {
			_, _ = fmt.Fprintf(a.Streams.Err, "\r\x1b[K%s\n", output.Clean(p.Step))
			if shown {
				show()
			}
			return
		}
		last = output.Clean(p.Step)
		if p.Total > 0 {
			last += fmt.Sprintf(" %s of %s", core.Bytes(p.Done), core.Bytes(p.Total))
		}
		if shown {
			show()
		}
	}
	stop = func() {
		begin.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		if shown {
			_, _ = fmt.Fprint(a.Streams.Err, "\r\x1b[K")
		}
	}
	return report, stop
}
