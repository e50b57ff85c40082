package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
)

// codeUnknown is the exit code of a command whose entry cannot be read.
const codeUnknown = 125

// All reads all entries, oldest first. A damaged entry has only its id, and an exit whose message names the file.
func (e Entries) All() ([]core.Exec, error) {
	files, err := os.ReadDir(e.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return []core.Exec{}, nil
	}
	if err != nil {
		return nil, err
	}
	execs := []core.Exec{}
	for _, file := range files {
		id, ok := strings.CutSuffix(file.Name(), ".json")
		if !ok || !validID(id) {
			continue
		}
		exec, err := e.Read(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			exec = core.Exec{ID: id, Exit: &core.Exit{Code: codeUnknown, Message: err.Error()}}
		}
		execs = append(execs, exec)
	}
	slices.SortFunc(execs, func(a, b core.Exec) int { return number(a.ID) - number(b.ID) })
	return execs, nil
}

func number(id string) int {
	n, err := strconv.Atoi(id)
	if err != nil {
		return -1
	}
	return n
}

// Output is a command's output while it is written. It keeps about the newest limit bytes: when half of that is full,
// it drops the older file.
type Output struct {
	mu    sync.Mutex
	path  string
	limit int64
	file  *os.File
	size  int64
	stats Stats
	// stdout and stderr keep the values of secrets out.
	stdout, stderr *redact.Stream
}

// Stats counts the bytes of an Output.
type Stats struct {
	Stdout, Stderr int64
	Truncated      bool
}

// Create starts the output of command id, without the values that redactor finds; it may be nil.
func Create(dir, id string, limit int64, redactor *redact.Redactor) (*Output, error) {
	path := filepath.Join(dir, id+".log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	size, err := dropTorn(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Output{
		path: path, limit: limit, file: f, size: size, stdout: redactor.Stream(), stderr: redactor.Stream(),
	}, nil
}

// dropTorn removes the data after the last whole record, and returns the remaining size. A killed writer may have left
// a torn record, which would hide later ones.
func dropTorn(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	for size < info.Size() {
		h, err := readHeader(io.NewSectionReader(f, size, info.Size()-size))
		if errors.Is(err, errCut) {
			break
		}
		if err != nil {
			return info.Size(), nil //nolint:nilerr // a reader names the damage
		}
		if size+h.size() > info.Size() {
			break
		}
		size += h.size()
	}
	if size < info.Size() {
		err = f.Truncate(size)
	}
	return size, err
}

// Write appends data. A failure of the disk does not fail the command: Write counts and drops data that it cannot keep.
func (o *Output) Write(stream core.Stream, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.write(stream, o.redacted(stream).Next(data))
}

// Settle writes the bytes of a stream that were held as the possible beginning of a secret. Call it when the command
// has ended, so that readers get the end of the output.
func (o *Output) Settle(stream core.Stream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.write(stream, o.redacted(stream).Rest())
}

func (o *Output) redacted(stream core.Stream) *redact.Stream {
	if stream == core.Stderr {
		return o.stderr
	}
	return o.stdout
}

// write appends records. o.mu is held.
func (o *Output) write(stream core.Stream, data []byte) {
	if stream == core.Stderr {
		o.stats.Stderr += int64(len(data))
	} else {
		o.stats.Stdout += int64(len(data))
	}
	for chunk := range slices.Chunk(data, MaxRecord) {
		if o.file == nil {
			o.stats.Truncated = true
			return
		}
		if o.size > o.limit/2 {
			o.rotate()
		}
		record := make([]byte, 0, headerSize+len(chunk)+2*sumSize)
		n, err := o.file.Write(appendRecord(record, time.Now(), stream, chunk))
		o.size += int64(n)
		if err != nil {
			// A torn record would hide all that follow it.
			_ = o.file.Close()
			o.file, o.stats.Truncated = nil, true
		}
	}
}

// rotate starts a new file and keeps the one before.
func (o *Output) rotate() {
	if _, err := os.Stat(o.path + ".1"); err == nil {
		o.stats.Truncated = true
	}
	_ = o.file.Close()
	o.file, o.size = nil, 0
	if os.Rename(o.path, o.path+".1") != nil {
		return
	}
	if f, err := os.OpenFile(o.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		o.file = f
	}
}

// Stats returns the counts so far.
func (o *Output) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stats
}

// Close ends the output.
func (o *Output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	o.file = nil
	return err
}
