package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-0724f904/sb/core"
)

// The exit codes that are sb's own. Commands that run a program in a sandbox return its code, and exitFailure for their
// own failures.
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

// GuestExitHelp is the help text of commands that pass the exit code of a sandboxed command through.
const GuestExitHelp = `

EXIT CODES
  The exit code of the command in the sandbox. "sb help exit-codes" lists the others.`

// ExitError ends the program with a code. Without Err the program prints no message: it is printed already, or the code
// comes from a command in a sandbox.
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

// OwnFailure marks err as a failure of sb. The command otherwise passes the exit code of a sandboxed command through.
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

// GuestCode marks the commands that pass the exit code of a sandboxed command through.
const GuestCode = "guest-code"

// PassesCode returns the annotation of a command whose exit code is that of a command in a sandbox.
func PassesCode() map[string]string { return map[string]string{GuestCode: "yes"} }

// CodeOf returns the exit code for err. Lost output has one code for all commands. A canceled error has the code of the
// signal that ended ctx.
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
