package cli

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/seed-0724f904/sb/core"
)

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
