package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// job is work that the dashboard itself does and that changes something: it would end with the dashboard, so quitting asks.
type job struct {
	id       int
	title    string
	progress core.Progress
	began    time.Time
	cancel   context.CancelFunc
}

// quietJob is how long a job takes before it gets a line.
const quietJob = 300 * time.Millisecond

// shownJobs are the jobs that have taken a while.
func (m *Model) shownJobs() []*job {
	var shown []*job
	for _, j := range m.jobs {
		if m.now.Sub(j.began) >= quietJob {
			shown = append(shown, j)
		}
	}
	return shown
}

// jobProgress is what a job reports.
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

// line draws a job: its title, a bar or its step, and how long it has taken.
func (j *job) line(s *styles, cells int, now time.Time) string {
	const bar = 20
	p := j.progress
	state := safe(p.Step)
	if p.Total > 0 {
		done := int(min(p.Done, p.Total) * bar / p.Total)
		state = fmt.Sprintf("%s %3d%% %s of %s", strings.Repeat("█", done)+strings.Repeat("░", bar-done), min(p.Done*100/p.Total, 100), core.Bytes(p.Done), core.Bytes(p.Total))
	} else if p.Done > 0 {
		state += " " + core.Bytes(p.Done).String()
	}
	if took := now.Sub(j.began); took >= time.Second {
		state += "  " + span(took)
	}
	title := cut("⟳ "+j.title, max(10, cells/2))
	return s.info.on(title) + "  " + s.bar.on(cut(state, max(0, cells-width(title)-2)))
}
