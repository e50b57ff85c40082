//go:build linux

package engine

import (
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// sendBrokenPipes makes writing system calls send SIGPIPE if the other end has no reader, as in signal(7) and write(2).
// gVisor sends it only for pipes from inside (gvisor.dev/issue/161), but the streams of a command are pipes of the
// host. Call it in the sentry, before the sentry starts.
func sendBrokenPipes() {
	for _, table := range kernel.SyscallTables() {
		for number, call := range table.Table {
			switch call.Name {
			case "write", "writev", "pwritev2", "sendfile", "splice", "tee":
				call.Fn = withBrokenPipe(call.Fn)
				table.Table[number] = call
			}
		}
		table.Init() // it copies the functions to the lookup table
	}
}

// withBrokenPipe sends SIGPIPE to a task whose call fails with EPIPE. If gVisor has sent the signal already, it is
// pending, and is not delivered twice.
func withBrokenPipe(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		n, control, err := fn(t, number, args)
		if linuxerr.Equals(linuxerr.EPIPE, err) {
			_ = t.SendSignal(kernel.SignalInfoNoInfo(linux.SIGPIPE, t, t)) // it fails for a task that is ending
		}
		return n, control, err
	}
}
