package service

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/seal"
)

const (
	auditFile = "audit.jsonl"
	// auditSize is the size at which the log is rotated, in bytes. auditKeep is the number of old files.
	auditSize = 16 << 20
	auditKeep = 4
	// auditPoll is how often a follower checks for lines of other processes.
	auditPoll = 200 * time.Millisecond
)

// AuditRecord is one operation, as one line of JSON with a checksum in the audit log. argv is kept;
// of environment variables and secrets only the names are.
type AuditRecord struct {
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor"`
	User     string    `json:"user,omitempty"`
	PID      int       `json:"pid"`
	Op       string    `json:"op"`
	Ref      string    `json:"ref,omitempty"`
	Provider string    `json:"provider,omitempty"`
	Sandbox  string    `json:"sandbox,omitempty"`
	Name     string    `json:"name,omitempty"`
	// Args depend on the operation.
	Args map[string]any `json:"args,omitempty"`
	// Result is "ok" or the error's kind.
	Result   string        `json:"result"`
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration_ns"`
}

// of records the sandbox of the operation after its reference is resolved.
func (r *AuditRecord) of(sb core.Sandbox) *AuditRecord {
	if sb.ID != "" {
		r.Provider, r.Sandbox, r.Name = sb.Provider, sb.ID, sb.Name
	}
	return r
}

// begin starts the record of an operation; finish ends it.
func (s *base) begin(op, ref string) *AuditRecord {
	return &AuditRecord{Time: s.now().UTC(), Actor: s.owner.Actor, User: s.owner.User, PID: s.owner.PID, Op: op, Ref: ref}
}

func (s *base) finish(record *AuditRecord, err error) {
	record.Duration = s.now().Sub(record.Time)
	record.Result = "ok"
	if err != nil {
		record.Result, record.Error = core.KindOf(err).String(), err.Error()
	}
	if s.audit != nil {
		if err := s.audit.append(record); err != nil {
			s.log.Warn("the audit log could not be written", "error", err)
		}
	}
	s.broker.publish(record.event())
}

func (r *AuditRecord) event() core.Event {
	return core.Event{
		Time: r.Time, Type: core.EventOperation, Provider: r.Provider, Sandbox: r.Sandbox, Name: r.Name,
		Op: r.Op, Result: r.Result, Message: r.Error, Actor: r.Actor,
	}
}

// auditLog appends to a file that other processes append to as well. Each record is one write to a descriptor opened
// with O_APPEND, so lines never mix.
type auditLog struct {
	dir string
	pid int
}

func (a *auditLog) append(record *AuditRecord) error {
	line, err := seal.Marshal(record)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(a.dir, auditFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	info, err := f.Stat()
	if err == nil && cutShort(f, info.Size()) {
		line = append([]byte{'\n'}, line...)
	}
	if err == nil && info.Size() > auditSize {
		// A rename is atomic. A process that still has the old file open appends to the kept generation. If two processes
		// rotate at once, the log shifts twice at worst.
		a.rotate()
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}

// cutShort reports whether the last line of f has no newline, as after a full disk.
func cutShort(f io.ReaderAt, size int64) bool {
	var last [1]byte
	if size == 0 {
		return false
	}
	n, _ := f.ReadAt(last[:], size-1) // an unreadable byte counts as whole
	return n == 1 && last[0] != '\n'
}

func (a *auditLog) rotate() {
	for n := auditKeep - 1; n >= 0; n-- {
		_ = os.Rename(a.path(n), a.path(n+1)) // a missing file needs no rename
	}
}

// path is the file of generation n; 0 is the one being written.
func (a *auditLog) path(n int) string {
	name := filepath.Join(a.dir, auditFile)
	if n > 0 {
		name += "." + strconv.Itoa(n)
	}
	return name
}

// HistoryFilter selects audit records; zero fields select all.
type HistoryFilter struct {
	// Sandbox is an id or a name.
	Sandbox string
	Op      string
	Since   time.Time
}

// AuditDamage is an error of History: some lines of a file are not records, or not as they were written, and were
// skipped. A kill and a full disk can cut a line short.
type AuditDamage struct {
	Path string
	// Lines counts them. First is the number of the first, from 1.
	Lines, First int
}

func (e *AuditDamage) Error() string {
	return fmt.Sprintf(
		"%s is damaged: %d of its lines were changed and are skipped; the first is line %d",
		e.Path, e.Lines, e.First,
	)
}

// parseAudit decodes one line of the log, and reports whether it is a record.
func parseAudit(line []byte) (record AuditRecord, ok bool) {
	err := seal.Unmarshal(line, &record)
	return record, err == nil && !record.Time.IsZero() && record.Op != "" && record.Result != ""
}

// History yields the audit log, oldest first. After the records of a file it yields an AuditDamage if the file is
// damaged; the records of newer files follow. Every other error is the last.
func (s Records) History(ctx context.Context, filter HistoryFilter) iter.Seq2[AuditRecord, error] {
	return func(yield func(AuditRecord, error) bool) {
		if s.audit == nil {
			return
		}
		files, err := s.audit.files()
		defer func() {
			for _, f := range files {
				_ = f.Close()
			}
		}()
		if err != nil {
			yield(AuditRecord{}, core.Wrap("history", "", err))
			return
		}
		for _, f := range slices.Backward(files) {
			damage := AuditDamage{Path: f.Name()}
			if !damage.read(ctx, f, filter, yield) {
				return
			}
			if damage.Lines > 0 && !yield(AuditRecord{}, &damage) {
				return
			}
		}
	}
}

// files opens all generations, the newest first, before it reads any: a rotation in between would otherwise hide one.
// The caller closes them, also with an error.
func (a *auditLog) files() (files []*os.File, err error) {
	var last os.FileInfo
	for n := range auditKeep + 1 {
		f, err := os.Open(a.path(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return files, err
		}
		files = append(files, f)
		info, err := f.Stat()
		if err != nil {
			return files, err
		}
		if last != nil && os.SameFile(last, info) { // it was rotated after it was opened
			_ = f.Close()
			files = files[:len(files)-1]
		}
		last = info
	}
	return files, nil
}

// read yields the records of a file and counts the lines that are none. It reports whether more is wanted.
func (e *AuditDamage) read(
	ctx context.Context, f io.Reader, filter HistoryFilter, yield func(AuditRecord, error) bool,
) bool {
	lines := bufio.NewReader(f)
	for number := 1; ctx.Err() == nil; number++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return true // another process is still writing a last line without a newline
		}
		if len(line) == 1 {
			continue // two writers saw the same torn line, and both completed it
		}
		record, ok := parseAudit(line)
		if !ok {
			e.Lines++
			e.First = cmp.Or(e.First, number)
			continue
		}
		if filter.Matches(record) && !yield(record, nil) {
			return false
		}
	}
	yield(AuditRecord{}, core.Wrap("history", "", ctx.Err()))
	return false
}

// Matches reports whether a record matches the filter.
func (f HistoryFilter) Matches(r AuditRecord) bool {
	return (f.Sandbox == "" || f.Sandbox == r.Sandbox || f.Sandbox == r.Name || f.Sandbox == r.Ref) &&
		(f.Op == "" || f.Op == r.Op) && !r.Time.Before(f.Since)
}

// others yields the operations that other processes append after the call.
func (a *auditLog) others(ctx context.Context) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		follower := &auditFollower{log: a}
		follower.open(io.SeekEnd)
		defer follower.close()
		tick := time.NewTicker(auditPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !follower.catchUp(yield) {
				return
			}
		}
	}
}

// auditFollower reads new lines of a log, across its rotations. It holds its file open, so it does not miss lines
// written before a rotation.
type auditFollower struct {
	log    *auditLog
	file   *os.File // nil while there is none
	offset int64    // the end of the last whole line
}

func (f *auditFollower) open(whence int) {
	f.file, f.offset = nil, 0
	file, err := os.Open(f.log.path(0))
	if err != nil {
		return // there is none yet
	}
	if f.offset, err = file.Seek(0, whence); err != nil {
		_ = file.Close()
		return
	}
	f.file = file
}

func (f *auditFollower) close() {
	if f.file != nil {
		_ = f.file.Close()
	}
}

// catchUp yields the lines written since the last call. It returns false if yield does.
func (f *auditFollower) catchUp(yield func(core.Event, error) bool) bool {
	for {
		replaced := f.replaced() // before the read: later lines are in the new file
		if f.file != nil && !f.read(yield) {
			return false
		}
		if !replaced {
			return true
		}
		f.close()
		f.open(io.SeekStart)
		if f.file == nil {
			return true
		}
	}
}

// replaced reports whether the log is now another file.
func (f *auditFollower) replaced() bool {
	now, err := os.Stat(f.log.path(0))
	if err != nil || f.file == nil {
		return err == nil
	}
	held, err := f.file.Stat()
	return err == nil && !os.SameFile(held, now)
}

// read yields the whole lines behind offset.
func (f *auditFollower) read(yield func(core.Event, error) bool) bool {
	if _, err := f.file.Seek(f.offset, io.SeekStart); err != nil {
		return true
	}
	lines := bufio.NewReader(f.file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return true
		}
		f.offset += int64(len(line))
		record, ok := parseAudit(line)
		if !ok || record.PID == f.log.pid {
			continue
		}
		if !yield(record.event(), nil) {
			return false
		}
	}
}
