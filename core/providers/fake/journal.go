package fake

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
)

// journal keeps the newest output of one command.
type journal struct {
	now   func() time.Time
	limit int

	mu      sync.Mutex
	records []core.LogRecord
	dropped int // earlier records, before records[0]
	kept    int // bytes
	stdout  int64
	stderr  int64
	ended   bool
	// secrets remove the values of secrets from the kept output.
	secrets map[core.Stream]*redact.Stream
	broadcast
}

func newJournal(limit core.Bytes, now func() time.Time, redactor *redact.Redactor) *journal {
	return &journal{
		now: now, limit: int(limit), broadcast: newBroadcast(),
		secrets: map[core.Stream]*redact.Stream{core.Stdout: redactor.Stream(), core.Stderr: redactor.Stream()},
	}
}

// add keeps a copy of data, without the values of secrets.
func (j *journal) add(stream core.Stream, data []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keep(stream, j.secrets[stream].Next(data))
}

// keep appends a record. j.mu is held.
func (j *journal) keep(stream core.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	if stream == core.Stderr {
		j.stderr += int64(len(data))
	} else {
		j.stdout += int64(len(data))
	}
	j.records = append(j.records, core.LogRecord{Time: j.now(), Stream: stream, Data: bytes.Clone(data)})
	j.kept += len(data)
	for j.kept > j.limit && len(j.records) > 1 {
		j.kept -= len(j.records[0].Data)
		j.records = j.records[1:]
		j.dropped++
	}
	j.notify()
}

// end marks the end of the output.
func (j *journal) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, stream := range []core.Stream{core.Stdout, core.Stderr} {
		j.keep(stream, j.secrets[stream].Rest())
	}
	j.ended = true
	j.notify()
}

// counts returns the bytes written, and whether some of them were dropped.
func (j *journal) counts() (stdout, stderr int64, truncated bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stdout, j.stderr, j.dropped > 0
}

// all returns the kept records.
func (j *journal) all() []core.LogRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.records)
}

// since returns the records from the n-th on and the number of the next one. more is closed when there are further
// records; ended reports that there will be none.
func (j *journal) since(n int) (records []core.LogRecord, next int, more <-chan struct{}, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next = j.dropped + len(j.records)
	return slices.Clone(j.records[min(max(n-j.dropped, 0), len(j.records)):]), next, j.wait(), j.ended
}

// read yields the records that opts selects.
func (j *journal) read(ctx context.Context, opts core.LogOptions, yield func(core.LogRecord, error) bool) {
	next, begun := 0, false
	for {
		records, following, more, ended := j.since(next)
		next = following
		records = slices.DeleteFunc(records, func(record core.LogRecord) bool {
			return record.Time.Before(opts.Since) || !opts.Until.IsZero() && !record.Time.Before(opts.Until)
		})
		if !begun && opts.Tail >= 0 {
			records = lastLines(records, opts.Tail)
		}
		begun = true
		for _, record := range records {
			if !yield(record, nil) {
				return
			}
		}
		if ended || !opts.Follow {
			return
		}
		select {
		case <-ctx.Done():
			yield(core.LogRecord{}, ctx.Err())
			return
		case <-more:
		}
	}
}

// lastLines keeps the last n lines; output after the last line feed is a line.
func lastLines(records []core.LogRecord, n int) []core.LogRecord {
	if n == 0 {
		return nil
	}
	feeds := n
	for i, record := range slices.Backward(records) {
		data := record.Data
		if i == len(records)-1 {
			data = bytes.TrimSuffix(data, []byte("\n"))
		}
		for at := bytes.LastIndexByte(data, '\n'); at >= 0; at = bytes.LastIndexByte(data[:at], '\n') {
			if feeds--; feeds == 0 {
				record.Data = record.Data[at+1:]
				return append([]core.LogRecord{record}, records[i+1:]...)
			}
		}
	}
	return records
}
