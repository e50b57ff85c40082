// Package journal keeps the commands that were run in a sandbox: one JSON file
// for each with what it was and how it ended, and its output as records in files of
// bounded size. The supervisor writes; anybody of the same user reads, also when the
// supervisor is gone.
//
// Output is a sequence of records: time (8 bytes, Unix nanoseconds), stream (1 byte),
// length (4 bytes), all big endian, then that many bytes. A record that is cut short is the end.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
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
)

const (
	headerSize = 13
	// MaxRecord bounds one record's data.
	MaxRecord = 1 << 20
	stdoutTag = 1
	stderrTag = 2
)

// Execs reads all entries in a journal's directory, oldest first. One that cannot be read is left out.
func Execs(dir string) ([]core.Exec, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return []core.Exec{}, nil
	}
	if err != nil {
		return nil, err
	}
	execs := []core.Exec{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(id, ".") {
			continue
		}
		if exec, err := Read(dir, id); err == nil {
			execs = append(execs, exec)
		}
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

// Output is a command's output while it is written. It keeps the newest limit bytes,
// more or less: when half of that is full the file before is dropped.
type Output struct {
	mu    sync.Mutex
	path  string
	limit int64
	file  *os.File
	size  int64
	stats Stats
	// stdout and stderr keep the values of secrets out.
	stdout, stderr *core.RedactedStream
}

// Stats counts what went through an Output.
type Stats struct {
	Stdout, Stderr int64
	Truncated      bool
}

// Create starts the output of command id, without the values that redact finds; it may be nil.
func Create(dir, id string, limit int64, redact *core.Redactor) (*Output, error) {
	path := filepath.Join(dir, id+".log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Output{path: path, limit: limit, file: f, stdout: redact.Stream(), stderr: redact.Stream()}, nil
}

// Write appends data. The disk's failure is not the command's: what cannot be kept
// is counted and dropped.
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

func (o *Output) redacted(stream core.Stream) *core.RedactedStream {
	if stream == core.Stderr {
		return o.stderr
	}
	return o.stdout
}

// write appends records. o.mu is held.
func (o *Output) write(stream core.Stream, data []byte) {
	tag := byte(stdoutTag)
	if stream == core.Stderr {
		tag = stderrTag
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
		record := make([]byte, 0, headerSize+len(chunk))
		record = binary.BigEndian.AppendUint64(record, uint64(time.Now().UnixNano()))
		record = append(record, tag)
		record = binary.BigEndian.AppendUint32(record, uint32(len(chunk))) //nolint:gosec // at most MaxRecord
		n, err := o.file.Write(append(record, chunk...))
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

// errCut is the end of a file that is being written, or was when its writer died.
var errCut = errors.New("record is cut short")

// readRecord reads one record. io.EOF is a clean end.
func readRecord(r io.Reader) (core.LogRecord, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return core.LogRecord{}, errCut
		}
		return core.LogRecord{}, err
	}
	record := core.LogRecord{Time: time.Unix(0, int64(binary.BigEndian.Uint64(header[:8])))} //nolint:gosec // any number is a time
	switch header[8] {
	case stdoutTag:
		record.Stream = core.Stdout
	case stderrTag:
		record.Stream = core.Stderr
	default:
		return core.LogRecord{}, fmt.Errorf("the journal has a record of unknown stream %d", header[8])
	}
	length := binary.BigEndian.Uint32(header[9:])
	if length > MaxRecord {
		return core.LogRecord{}, fmt.Errorf("the journal has a record of %d bytes", length)
	}
	record.Data = make([]byte, length)
	if _, err := io.ReadFull(r, record.Data); err != nil {
		return core.LogRecord{}, errCut
	}
	return record, nil
}
