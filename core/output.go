package core

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// LostOutput returns the error for a command's output that could not be written to the caller's stream because of err.
// It is nil if err is nil or only means that the reader closed its end. As in a shell pipeline, that is the reader's
// choice.
func LostOutput(stream Stream, err error) error {
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe), errors.Is(err, fs.ErrClosed):
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return Errorf(KindExhausted, "write", "", "the command's %s could not be written: %w", stream, err).
			WithHint("free some space, or redirect the output")
	}
	return Errorf(KindOf(err), "write", "", "the command's %s could not be written: %w", stream, err)
}
