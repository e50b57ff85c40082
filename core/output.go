package core

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// LostOutput is the error of a command whose output could not be written where the caller wants it, because of err.
// It is nil if err is nil or only says that the reader went away: as with a pipe of the shell, that is the reader's choice.
func LostOutput(stream Stream, err error) error {
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe), errors.Is(err, fs.ErrClosed):
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return Errorf(KindExhausted, "write", "", "the command's %s is lost: %w", stream, err).
			WithHint("free some space where the output goes, or send it elsewhere")
	}
	return Errorf(KindOf(err), "write", "", "the command's %s is lost: %w", stream, err)
}
