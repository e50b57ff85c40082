package feed

import (
	"context"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/guesttext"
)

const (
	// MaxLogLines bounds the kept lines of one command.
	MaxLogLines = 50_000
	// MaxLogBytes bounds the kept output of one command.
	MaxLogBytes = 16 << 20
)

// LogLine is one line of output, safe to draw.
type LogLine struct {
	At     time.Time
	Stderr bool
	Text   string
}

// LogBatch is a piece of output.
type LogBatch struct {
	Lines []LogLine
	// Partial has the unfinished lines of stdout and stderr.
	Partial [2]string
	Bytes   int
	// Lost counts the lines dropped before they were drawn.
	Lost int
	Err  error
}

// Log reads a command's output in the background.
type Log struct {
	*Feed[LogBatch]

	Cancel context.CancelFunc
}

// NewLog returns a feed for the output of one command. cancel ends its Read.
func NewLog(cancel context.CancelFunc) *Log {
	return &Log{New(mergeLog), cancel}
}

// mergeLog combines batches into one and keeps its newest part.
func mergeLog(kept, added []LogBatch) []LogBatch {
	if len(kept) == 0 {
		kept = make([]LogBatch, 1)
	}
	whole := &kept[0]
	for _, b := range added {
		whole.Lines = append(whole.Lines, b.Lines...)
		whole.Bytes += b.Bytes
		whole.Partial = b.Partial
		if b.Err != nil {
			whole.Err = b.Err
		}
	}
	var dropped int
	whole.Lines, whole.Bytes, dropped = TrimLog(whole.Lines, whole.Bytes)
	whole.Lost += dropped
	return kept
}

// TrimLog drops the oldest lines of a log over its bounds. It drops a quarter more, to avoid a copy of the log for
// every line.
func TrimLog(lines []LogLine, size int) (kept []LogLine, left, dropped int) {
	if len(lines) <= MaxLogLines && size <= MaxLogBytes {
		return lines, size, 0
	}
	for dropped < len(lines) && (len(lines)-dropped > MaxLogLines*3/4 || size > MaxLogBytes*3/4) {
		size -= len(lines[dropped].Text)
		dropped++
	}
	return append([]LogLine(nil), lines[dropped:]...), size, dropped
}

// Read reads a command's output to its end and puts it into the feed.
func (f *Log) Read(ctx context.Context, svc *service.Service, sandbox, exec string) {
	defer f.end()
	var splitters [2]guesttext.Splitter
	for record, err := range svc.Execs.Logs(ctx, sandbox, core.LogOptions{Exec: exec, Follow: true, Tail: MaxLogLines}) {
		batch := LogBatch{Err: err}
		if err == nil {
			stderr := record.Stream == core.Stderr
			which := 0
			if stderr {
				which = 1
			}
			splitters[which].Write(record.Data, func(line string) {
				batch.Lines = append(batch.Lines, LogLine{At: record.Time, Stderr: stderr, Text: line})
				batch.Bytes += len(line)
			})
		}
		if ctx.Err() != nil {
			return
		}
		batch.Partial = [2]string{splitters[0].Partial(), splitters[1].Partial()}
		f.Put(batch)
	}
}
