package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/seed-0724f904/sb/core"
)

// MaxReport bounds a report in bytes; readers may stop there.
const MaxReport = 64 << 10

// maxSkipped bounds how many skipped paths a report names.
const maxSkipped = 16

// Report is how a request ended.
type Report struct {
	// Error is nil after success.
	Error *Failure `json:"error,omitempty"`
	// Exit is how the command of a pty ended; nil if it did not start.
	Exit *Exit `json:"exit,omitempty"`
	// Skipped counts the files that vanished during an export. It also counts the entries that an import does not support
	// (devices, sockets). SkippedPaths names the first of them.
	Skipped      int      `json:"skipped,omitempty"`
	SkippedPaths [][]byte `json:"skipped_paths,omitempty"`
}

// Exit is a command's end; Code is as a shell reports it.
type Exit struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

// Failure is a core.Error in a message: in a Report, and in the answers of supervisors (package wire).
type Failure struct {
	// Kind is a core.Kind's name.
	Kind string `json:"kind"`
	// Path is the error's subject, in most cases a path.
	Path    []byte `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Fail returns err as a Failure, and nil for nil.
func Fail(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Kind: core.KindOf(err).String(), Message: err.Error(), Hint: core.HintOf(err)}
	if e, ok := errors.AsType[*core.Error](err); ok {
		f.Path = []byte(e.Subject)
		if e.Err != nil && err == error(e) { //nolint:errorlint // a wrapped error has more in its text
			f.Message = e.Err.Error() // Path has the subject
		}
	}
	return f
}

// Err returns the failure as a *core.Error with that op; nil for nil.
func (f *Failure) Err(op string) error {
	if f == nil {
		return nil
	}
	return &core.Error{
		Kind: core.ParseKind(f.Kind), Op: op, Subject: string(f.Path), Hint: f.Hint, Err: errors.New(f.Message),
	}
}

// Skip records a skipped entry.
func (r *Report) Skip(path string) {
	r.Skipped++
	if len(r.SkippedPaths) < maxSkipped {
		r.SkippedPaths = append(r.SkippedPaths, []byte(path))
	}
}

// Fail makes the report one of err. Its kind is KindOf's.
func (r *Report) Fail(path string, err error) {
	if e, ok := errors.AsType[*core.Error](err); ok && e.Subject != "" {
		path = e.Subject
	}
	r.Error = &Failure{Kind: KindOf(err).String(), Path: []byte(path), Message: cause(err)}
}

// cause returns err's message without the parts that the failure's other fields have.
func cause(err error) string {
	if e, ok := errors.AsType[*core.Error](err); ok && e.Err != nil {
		return e.Err.Error()
	}
	return rootCause(err).Error()
}

// DecodeReport parses the helper's output on descriptor 2. Other content, as after a crash or a kill of the process, is
// an error of core.KindInternal.
func DecodeReport(data []byte) (Report, error) {
	var r Report
	if len(bytes.TrimSpace(data)) == 0 {
		return r, core.Errorf(core.KindInternal, "guest", "", "sb-guest ended without a report")
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, core.Errorf(core.KindInternal, "guest", "", "sb-guest failed: %.200q", firstLine(data))
	}
	return r, nil
}

// ReadExit sets a command's exit from the report of its sb-guest pty. Without a valid report exit stays: then sb-guest
// itself was killed, and exit has its signal.
func ReadExit(r io.Reader, exit *core.Exit) {
	text, _ := io.ReadAll(io.LimitReader(r, MaxReport))
	report, err := DecodeReport(text)
	if err != nil {
		return
	}
	if report.Exit != nil {
		exit.Code, exit.Signal = report.Exit.Code, report.Exit.Signal
	}
	if report.Error != nil {
		exit.Message = report.Error.Message
	}
}

// Err returns the report's failure as a *core.Error with that op, or nil.
func (r Report) Err(op string) error { return r.Error.Err(op) }

func firstLine(data []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(data), []byte("\n"))
	return string(line)
}
