//go:build linux

package supervisor

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
)

// classify adds a kind to an error of the sandbox's start.
func classify(err error) error {
	return classified("local.launch", "the sandbox could not be started", err)
}

// classifyExec adds a kind to an error of a command's start.
func classifyExec(err error) error {
	return classified("local.exec", "the command could not be started", err)
}

// classified is classifyAs for errors without a kind.
func classified(op, what string, err error) error {
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	return classifyAs(op, what, err)
}

// classifyAs adds a kind by the error's number, and the text what, which describes the failed action.
func classifyAs(op, what string, err error) error {
	kind := errnoKind(err)
	hint := kindHint(kind)
	if errors.Is(err, engine.ErrReplaced) {
		kind, hint = core.KindUnauthorized, "nothing may move or replace a directory while it is mounted"
	}
	if errors.Is(err, unix.EMFILE) {
		hint = "raise the limit of open files: ulimit -n 1024"
	}
	return core.Errorf(kind, op, "", "%s: %w", what, err).WithHint("%s", hint)
}

// errnoKind returns the kind of an error by its number.
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
		return "sb doctor shows the problems of this machine"
	case core.KindInternal, core.KindUsage, core.KindNotFound, core.KindConflict, core.KindUnsupported,
		core.KindUnauthorized,
		core.KindTimeout, core.KindCanceled:
	}
	return ""
}
