package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// followPoll is how often a follower looks for more.
const followPoll = 20 * time.Millisecond

// Records yields a command's output, oldest first. With opts.Follow it waits for more until ended returns true. An
// error comes last. A damaged record is skipped, and is such an error. For an id that Read does not find there is no
// output.
func Records(
	ctx context.Context, dir, id string, opts core.LogOptions, ended func() bool,
) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		if !validID(id) {
			return
		}
		r := &reader{path: filepath.Join(dir, id+".log")}
		defer r.close()
		selected := func(record core.LogRecord) bool {
			return !record.Time.Before(opts.Since) && (opts.Until.IsZero() || record.Time.Before(opts.Until))
		}
		if opts.Tail >= 0 {
			tail, err := r.tail(opts.Tail, selected)
			for _, record := range tail {
				if !yield(record, nil) {
					return
				}
			}
			if err != nil {
				yield(core.LogRecord{}, err)
				return
			}
		}
		tick := time.NewTicker(followPoll)
		defer tick.Stop()
		for {
			// Call ended before the read: the read then gets all output from before the end.
			over := !opts.Follow || ended()
			for {
				record, err := r.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					yield(core.LogRecord{}, err)
					return
				}
				if selected(record) && !yield(record, nil) {
					return
				}
			}
			if over {
				if r.damage != nil {
					yield(core.LogRecord{}, r.damage)
				}
				return
			}
			select {
			case <-ctx.Done():
				yield(core.LogRecord{}, ctx.Err())
				return
			case <-tick.C:
			}
		}
	}
}

// reader reads the older file, then the newer one, and notices rotation.
type reader struct {
	path   string
	file   *os.File
	offset int64
	older  bool // file is the one before the newest
	// damage describes the first damaged record.
	damage error
}

// next returns the next record, or io.EOF if there is none yet.
func (r *reader) next() (core.LogRecord, error) {
	for {
		if r.file == nil && !r.open() {
			return core.LogRecord{}, io.EOF
		}
		if _, err := r.file.Seek(r.offset, io.SeekStart); err != nil {
			return core.LogRecord{}, err
		}
		record, size, err := readRecord(r.file)
		if err == nil {
			r.offset += size
			return record, nil
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, errCut) {
			r.damage = cmp.Or(r.damage, fmt.Errorf("%s is damaged at byte %d: %w", r.file.Name(), r.offset, err))
			if r.skip(size) {
				continue
			}
		}
		if !r.rotated() {
			return core.LogRecord{}, io.EOF
		}
		// The writer has switched to a new file, so this one is complete.
		r.close()
	}
}

// skip moves behind a damaged record, of which the size is known unless it is 0. It reports whether another record may
// follow.
func (r *reader) skip(size int64) bool {
	if size > 0 {
		r.offset += size
		return true
	}
	at, ok := nextHeader(r.file, r.offset+1)
	if ok {
		r.offset = at
	}
	return ok
}

// open opens the file that follows the one read last.
func (r *reader) open() bool {
	if r.offset == 0 && !r.older {
		if f, err := openRegular(r.path + ".1"); err == nil {
			r.file, r.older = f, true
			return true
		}
	}
	f, err := openRegular(r.path)
	if err != nil {
		return false
	}
	r.file, r.older, r.offset = f, false, 0
	return true
}

// rotated reports whether a newer file has replaced the open one.
func (r *reader) rotated() bool {
	mine, err := r.file.Stat()
	if err != nil {
		return false
	}
	newest, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return false
	}
	return !os.SameFile(mine, newest)
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// tail reads all that is there and returns the records that hold the last lines.
func (r *reader) tail(lines int, selected func(core.LogRecord) bool) ([]core.LogRecord, error) {
	var records []core.LogRecord
	for {
		record, err := r.next()
		if errors.Is(err, io.EOF) {
			return lastLines(records, lines), nil
		}
		if err != nil {
			return nil, err
		}
		if selected(record) {
			records = append(records, record)
		}
	}
}

// lastLines cuts records to the last n lines. Text after the last newline counts as a line.
func lastLines(records []core.LogRecord, n int) []core.LogRecord {
	seen := 0
	for i := len(records) - 1; i >= 0; i-- {
		data := records[i].Data
		end := len(data)
		if i == len(records)-1 && end > 0 && data[end-1] == '\n' {
			end--
		}
		for {
			newline := bytes.LastIndexByte(data[:end], '\n')
			if newline < 0 {
				break
			}
			if seen++; seen == n {
				records[i].Data = data[newline+1:]
				return records[i:]
			}
			end = newline
		}
	}
	if n == 0 {
		return nil
	}
	return records
}
