package tui

import (
	"context"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/guesttext"
)

const (
	// maxLogLines and maxLogBytes bound the kept output of one command.
	maxLogLines = 50_000
	maxLogBytes = 16 << 20
)

// logLine is one line of output, safe to draw.
type logLine struct {
	at     time.Time
	stderr bool
	text   string
}

// logBatch is a piece of output.
type logBatch struct {
	lines []logLine
	// partial has the unfinished lines of stdout and stderr.
	partial [2]string
	bytes   int
	// lost counts the lines dropped before they were drawn.
	lost int
	err  error
}

// logFeed reads a command's output in the background.
type logFeed struct {
	*feed[logBatch]

	cancel context.CancelFunc
}

func newLogFeed(cancel context.CancelFunc) *logFeed {
	return &logFeed{newFeed(mergeLog), cancel}
}

// mergeLog combines batches into one and keeps its newest part.
func mergeLog(kept, added []logBatch) []logBatch {
	if len(kept) == 0 {
		kept = make([]logBatch, 1)
	}
	whole := &kept[0]
	for _, b := range added {
		whole.lines = append(whole.lines, b.lines...)
		whole.bytes += b.bytes
		whole.partial = b.partial
		if b.err != nil {
			whole.err = b.err
		}
	}
	var dropped int
	whole.lines, whole.bytes, dropped = trimLog(whole.lines, whole.bytes)
	whole.lost += dropped
	return kept
}

// trimLog drops the oldest lines of a log over its bounds. It drops a quarter more, so that it need not copy the log
// for every line.
func trimLog(lines []logLine, size int) (kept []logLine, left, dropped int) {
	if len(lines) <= maxLogLines && size <= maxLogBytes {
		return lines, size, 0
	}
	for dropped < len(lines) && (len(lines)-dropped > maxLogLines*3/4 || size > maxLogBytes*3/4) {
		size -= len(lines[dropped].text)
		dropped++
	}
	return append([]logLine(nil), lines[dropped:]...), size, dropped
}

// read reads a command's output to its end and puts it into the feed.
func (f *logFeed) read(ctx context.Context, svc *service.Service, sandbox, exec string) {
	defer f.end()
	var splitters [2]guesttext.Splitter
	for record, err := range svc.Execs.Logs(ctx, sandbox, core.LogOptions{Exec: exec, Follow: true, Tail: maxLogLines}) {
		batch := logBatch{err: err}
		if err == nil {
			stderr := record.Stream == core.Stderr
			which := 0
			if stderr {
				which = 1
			}
			splitters[which].Write(record.Data, func(line string) {
				batch.lines = append(batch.lines, logLine{record.Time, stderr, line})
				batch.bytes += len(line)
			})
		}
		if ctx.Err() != nil {
			return
		}
		batch.partial = [2]string{splitters[0].Partial(), splitters[1].Partial()}
		f.put(batch)
	}
}
