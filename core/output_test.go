package core_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestLostOutput(t *testing.T) {
	for _, err := range []error{
		nil, syscall.EPIPE, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, io.ErrClosedPipe, os.ErrClosed,
	} {
		if got := core.LostOutput(core.Stdout, err); got != nil {
			t.Errorf("%v: %v", err, got)
		}
	}
	for err, kind := range map[error]core.Kind{
		fmt.Errorf("write: %w", syscall.ENOSPC): core.KindExhausted,
		syscall.EFBIG:                           core.KindExhausted,
		syscall.EIO:                             core.KindInternal,
		errors.New("no more"):                   core.KindInternal,
	} {
		if got := core.LostOutput(core.Stderr, err); got == nil || core.KindOf(got) != kind || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
