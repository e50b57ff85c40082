package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// The exit codes that are sb's own. A guest's code is passed through by the
// commands that run one; those report their own failures as exitFailure.
const (
	ExitOK      = 0
	ExitTimeout = 124 // a guest command's time limit ended it
	exitKilled  = 137 // its sandbox was terminated, or ran out of memory
	exitFailure = 125 // stdout was not written; exec, run, shell, attach: sb failed, not the command
)

// ExitCode is the one table from kinds of error to exit codes.
func ExitCode(kind core.Kind) int {
	switch kind {
	case core.KindInternal:
		return 1
	case core.KindUsage:
		return 2
	case core.KindNotFound:
		return 3
	case core.KindConflict:
		return 4
	case core.KindUnsupported:
		return 5
	case core.KindUnavailable:
		return 6
	case core.KindUnauthorized:
		return 7
	case core.KindTimeout:
		return 8
	case core.KindExhausted:
		return 9
	case core.KindCanceled:
		return 130
	}
	return 1
}

// ExitCodesHelp documents ExitCode and the codes of commands that pass a guest's code through.
const ExitCodesHelp = `sb exits with one of these codes:

  0    success
  1    internal error
  2    invalid arguments, flags or values
  3    no such sandbox, command or file
  4    conflict: it already exists, or is in the wrong state
  5    the provider does not support it
  6    the provider is unavailable; "sb doctor" shows why
  7    permission denied or invalid credentials
  8    timed out
  9    a quota or a resource (disk, memory) is exhausted
  125  stdout could not be written; stderr names what was made
  130  interrupted (128+n for signal n)

exec, run, shell, attach and wait exit with the code of the command in the sandbox, or with one of these:

  124  --timeout or the lifetime of the sandbox ended the command
  125  sb failed; stderr shows why
  126  the command cannot be executed
  127  the command was not found
  128+n  signal n ended the command (137: SIGKILL, also when out of memory)
  130, 143  sb was interrupted before the command ran`

// GuestExitHelp documents the codes of commands that pass a guest's code through.
const GuestExitHelp = `

EXIT CODES
  The exit code of the command in the sandbox, or:
  124  --timeout or the lifetime of the sandbox ended the command
  125  sb failed; stderr shows why
  126  the command cannot be executed
  127  the command was not found
  128+n  signal n ended the command (137: SIGKILL, also when out of memory)
  130, 143  sb was interrupted before the command ran`

// ExitError ends the program with a code. Without Err nothing is printed: what
// there was to say has been said, or the code is a guest's.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// PassThrough makes an error of a guest's exit code; nil for 0.
func PassThrough(code int) error {
	if code == ExitOK {
		return nil
	}
	return &ExitError{Code: code}
}

// OwnFailure marks err as sb's own failure in a command whose exit code is otherwise a guest's.
func OwnFailure(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ExitError](err); ok {
		return err
	}
	if core.KindOf(err) == core.KindCanceled {
		return err
	}
	return &ExitError{Code: exitFailure, Err: err}
}

// GuestCode marks the commands whose exit code is a guest's.
const GuestCode = "guest-code"

// PassesCode returns the annotation of a command whose exit code is that of a command in a sandbox.
func PassesCode() map[string]string { return map[string]string{GuestCode: "yes"} }

// Usagef makes an error of bad usage of cmd.
func Usagef(cmd *cobra.Command, format string, args ...any) error {
	return core.Errorf(core.KindUsage, cmd.Name(), "", format, args...).
		WithHint("see %q", cmd.CommandPath()+" --help")
}

// CodeOf returns the exit code that err asks for. Lost output has one code for all commands. A canceled error takes
// the code of the signal that ended ctx.
func CodeOf(ctx context.Context, err error) int {
	if err == nil {
		return ExitOK
	}
	if lostOutput(err) {
		return exitFailure
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	kind := core.KindOf(err)
	if kind == core.KindCanceled {
		if s, ok := errors.AsType[*SignalError](context.Cause(ctx)); ok {
			return 128 + s.number()
		}
	}
	return ExitCode(kind)
}

// Interrupted says whether err is nothing but the end of ctx by a signal.
func Interrupted(ctx context.Context, err error) bool {
	_, signaled := errors.AsType[*SignalError](context.Cause(ctx))
	return signaled && core.KindOf(err) == core.KindCanceled
}

// errorReport is the JSON form of an error, written to stderr under --json.
type errorReport struct {
	Error    string    `json:"error"`
	Kind     core.Kind `json:"kind"`
	Op       string    `json:"op,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Hint     string    `json:"hint,omitempty"`
	ExitCode int       `json:"exit_code"`
}

// PrintError says what went wrong and what to do next.
func PrintError(w io.Writer, err error, code int, asJSON bool) {
	if e, ok := errors.AsType[*ExitError](err); ok && e.Err == nil {
		return
	}
	if asJSON {
		report := errorReport{Error: err.Error(), Kind: core.KindOf(err), Hint: core.HintOf(err), ExitCode: code}
		if e, ok := errors.AsType[*core.Error](err); ok {
			report.Op, report.Subject = e.Op, e.Subject
		}
		_ = output.Line(w, report)
		return
	}
	for _, one := range unjoin(err) {
		text := output.Clean(one.Error())
		if !strings.HasPrefix(text, "sb ") {
			text = "sb: " + text
		}
		_, _ = fmt.Fprintln(w, text)
		if hint := core.HintOf(one); hint != "" {
			_, _ = fmt.Fprintf(w, "hint: %s\n", output.Clean(hint))
		}
	}
}

// unjoin splits what errors.Join made, also of what it had made.
func unjoin(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, unjoin(one)...)
	}
	return all
}
