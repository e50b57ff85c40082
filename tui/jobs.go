package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// job is work of the dashboard that changes something. It ends with the dashboard, so quitting asks.
type job struct {
	id       int
	title    string
	progress core.Progress
	began    time.Time
	cancel   context.CancelFunc
}

// quietJob is how long a job runs before it gets a line on the screen.
const quietJob = 300 * time.Millisecond

// shownJobs returns the jobs that have run for quietJob.
func (m *Model) shownJobs() []*job {
	var shown []*job
	for _, j := range m.jobs {
		if m.now.Sub(j.began) >= quietJob {
			shown = append(shown, j)
		}
	}
	return shown
}

// jobProgress is a progress report of a job.
type jobProgress struct {
	id int
	core.Progress
}

// mergeProgress keeps the newest report of each job.
func mergeProgress(kept, added []jobProgress) []jobProgress {
next:
	for _, a := range added {
		for i, k := range kept {
			if k.id == a.id {
				kept[i] = a
				continue next
			}
		}
		kept = append(kept, a)
	}
	return kept
}

// line draws a job: its title, a progress bar or its step, and its duration.
func (j *job) line(s *theme.Styles, cells int, now time.Time) string {
	const bar = 20
	p := j.progress
	state := safe(p.Step)
	if p.Total > 0 {
		done := int(min(p.Done, p.Total) * bar / p.Total)
		drawn := strings.Repeat("█", done) + strings.Repeat("░", bar-done)
		percent := min(p.Done*100/p.Total, 100)
		state = fmt.Sprintf("%s %3d%% %s of %s", drawn, percent, core.Bytes(p.Done), core.Bytes(p.Total))
	} else if p.Done > 0 {
		state += " " + core.Bytes(p.Done).String()
	}
	if took := now.Sub(j.began); took >= time.Second {
		state += "  " + format.Span(took)
	}
	title := screen.Cut("⟳ "+j.title, max(10, cells/2))
	return s.Info.On(title) + "  " + s.Bar.On(screen.Cut(state, max(0, cells-screen.Width(title)-2)))
}
