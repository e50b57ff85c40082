package guest

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/seed-0724f904/sb/core"
)

// KindOf classifies an error of the file system by its number.
func KindOf(err error) core.Kind {
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e.Kind
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return core.KindOf(err)
	}
	switch errno {
	case syscall.ENOENT:
		return core.KindNotFound
	case syscall.EEXIST, syscall.EISDIR, syscall.ENOTDIR, syscall.ENOTEMPTY, syscall.EBUSY, syscall.ETXTBSY:
		return core.KindConflict
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return core.KindUnauthorized
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return core.KindExhausted
	case syscall.EINVAL, syscall.ENAMETOOLONG, syscall.ELOOP:
		return core.KindUsage
	case syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EXDEV:
		return core.KindUnsupported
	}
	return core.KindInternal
}

// rootCause is the part of a path error that does not repeat the path.
func rootCause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
