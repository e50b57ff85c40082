package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// progressDelay is how long an operation may take before it says what it does.
const progressDelay = 500 * time.Millisecond

// Notice tells the user a sentence on stderr.
func (a *App) Notice(text string) { _, _ = fmt.Fprintln(a.Streams.Err, "sb: "+text) }

// Progress shows on stderr what a long operation does: on a terminal as one line, and not before the operation
// has taken a while; elsewhere what is rare, as a line each. Call stop when it is over.
func (a *App) Progress() (report core.ProgressFunc, stop func()) {
	if !a.Streams.ErrTTY() {
		return func(p core.Progress) {
			if p.Rare {
				_, _ = fmt.Fprintf(a.Streams.Err, "%s ...\n", output.Clean(p.Step))
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

// TransferBar shows a transfer's progress with rate and time left, on a terminal only.
func (a *App) TransferBar(description string, wanted bool) (report core.ProgressFunc, stop func()) {
	if !wanted || !a.Streams.ErrTTY() {
		return nil, func() {}
	}
	var (
		mu  sync.Mutex
		bar *progressbar.ProgressBar
	)
	report = func(p core.Progress) {
		mu.Lock()
		defer mu.Unlock()
		total := p.Total
		if total <= 0 {
			total = -1
		}
		if bar == nil {
			bar = progressbar.NewOptions64(total,
				progressbar.OptionSetWriter(a.Streams.Err),
				progressbar.OptionSetDescription(description),
				progressbar.OptionShowBytes(true),
				progressbar.OptionUseIECUnits(true),
				progressbar.OptionShowTotalBytes(true),
				progressbar.OptionSetPredictTime(true),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionFullWidth(),
				progressbar.OptionClearOnFinish(),
			)
		} else if total != bar.GetMax64() {
			bar.ChangeMax64(total)
		}
		_ = bar.Set64(p.Done)
	}
	stop = func() {
		mu.Lock()
		defer mu.Unlock()
		if bar != nil {
			_ = bar.Clear()
			_ = bar.Exit()
		}
	}
	return report, stop
}
