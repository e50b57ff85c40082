//go:build linux

package supervisor

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// errnoKind is the kind of an error by its number.
func errnoKind(err error) core.Kind {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return core.KindOf(err)
	}
	switch errno {
	case unix.ENOSPC, unix.EDQUOT, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EAGAIN:
		return core.KindExhausted
	case unix.EPERM, unix.EACCES:
		return core.KindUnavailable
	}
	return core.KindInternal
}

func kindHint(kind core.Kind) string {
	switch kind {
	case core.KindExhausted:
		return "free disk space, memory or processes on this machine"
	case core.KindUnavailable:
		return "sb doctor says what this machine does not allow"
	case core.KindInternal, core.KindUsage, core.KindNotFound, core.KindConflict, core.KindUnsupported, core.KindUnauthorized,
		core.KindTimeout, core.KindCanceled:
	}
	return ""
}
