package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// Made describes something that a command made, and its output.
type Made struct {
	// Op is the command. ID is the name by which the user finds the object later.
	Op, ID string
	// Fact begins the error, as in "the sandbox loc-1 runs". Next is the error's hint.
	Fact, Next string
	// Text is printed instead of ID, and Value with --json.
	Text  string
	Value any
}

// Tell prints the text of made, or its value as JSON. If a write to stdout fails, the error names the object.
func (a *App) Tell(made Made, asJSON bool) error {
	text := made.Text
	if text == "" {
		text = made.ID
	}
	var err error
	if asJSON {
		err = output.JSON(a.Streams.Out, made.Value)
	} else {
		_, err = fmt.Fprintln(a.Streams.Out, text)
	}
	return made.unprinted(err)
}

// TellAll prints several new objects as a JSON array. If a write to stdout fails, the error names each.
func (a *App) TellAll(all []Made) error {
	values := make([]any, len(all))
	for i, made := range all {
		values[i] = made.Value
	}
	err := output.List(a.Streams.Out, values)
	var failed error
	for _, made := range all {
		failed = errors.Join(failed, made.unprinted(err))
	}
	return failed
}

// unprinted returns the error of a failed write to stdout, or nil without an error.
func (m Made) unprinted(err error) error {
	if err == nil {
		return nil
	}
	return core.Errorf(core.KindOf(err), m.Op, m.ID, "%s, but it could not be printed: %w", m.Fact, err).
		WithHint("%s", m.Next)
}

// stdoutName is the path in errors of os.Stdout.
const stdoutName = "/dev/stdout"

// lostOutput reports whether err, or an error that it wraps, is a failed write to stdout.
func lostOutput(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each wrapped error is examined
	case *fs.PathError:
		return e.Op == "write" && e.Path == stdoutName
	case *core.Error:
		return lostOutput(e.Err)
	case interface{ Unwrap() error }:
		return lostOutput(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), lostOutput)
	}
	return false
}
