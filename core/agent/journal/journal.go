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
	"github.com/seed-0724f904/sb/core/redact"
)

const (
	headerSize = 13
	// MaxRecord bounds one record's data.
	MaxRecord = 1 << 20
	stdoutTag = 1
	stderrTag = 2
)

// codeUnknown is the exit code of a command whose entry cannot be read.
const codeUnknown = 125

// Execs reads all entries in a journal's directory, oldest first. One that cannot be read has only its id, and an exit
// whose message names the file.
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
		if !ok || !validID(id) {
			continue
		}
		exec, err := Read(dir, id)
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
	stdout, stderr *redact.Stream
}

// Stats counts what went through an Output.
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

// dropTorn removes what follows the last whole record, and returns the size that is left. A writer that was killed may
// have left a torn record, which would hide those that follow it.
func dropTorn(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	var header [headerSize]byte
	for size+headerSize <= info.Size() {
		if _, err := f.ReadAt(header[:], size); err != nil {
			return 0, err
		}
		length, err := checkHeader(header)
		if err != nil {
			return info.Size(), nil //nolint:nilerr // a reader names the damage
		}
		if size+headerSize+length > info.Size() {
			break
		}
		size += headerSize + length
	}
	if size < info.Size() {
		err = f.Truncate(size)
	}
	return size, err
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

func (o *Output) redacted(stream core.Stream) *redact.Stream {
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

// checkHeader returns the length of a record's data.
func checkHeader(header [headerSize]byte) (length int64, err error) {
	length = int64(binary.BigEndian.Uint32(header[9:]))
	switch tag := header[8]; {
	case tag != stdoutTag && tag != stderrTag:
		return 0, fmt.Errorf("a record has the unknown stream %d", tag)
	case length > MaxRecord:
		return 0, fmt.Errorf("a record has %d bytes", length)
	}
	return length, nil
}

// readRecord reads one record. io.EOF is a clean end.
func readRecord(r io.Reader) (core.LogRecord, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return core.LogRecord{}, errCut
		}
		return core.LogRecord{}, err
	}
	length, err := checkHeader(header)
	if err != nil {
		return core.LogRecord{}, err
	}
	//nolint:gosec // any number is a time
	record := core.LogRecord{Time: time.Unix(0, int64(binary.BigEndian.Uint64(header[:8]))), Stream: core.Stdout}
	if header[8] == stderrTag {
		record.Stream = core.Stderr
	}
	record.Data = make([]byte, length)
	if _, err := io.ReadFull(r, record.Data); err != nil {
		return core.LogRecord{}, errCut
	}
	return record, nil
}
