//go:build linux

package engine

import (
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// sendBrokenPipes makes the system calls that write send SIGPIPE when nothing reads the other end any more, as
// signal(7) and write(2) say. gVisor sends it only for pipes that were made inside (gvisor.dev/issue/161), and the
// streams of a command are pipes of the host. Call it in the sentry, before it starts.
func sendBrokenPipes() {
	for _, table := range kernel.SyscallTables() {
		for number, call := range table.Table {
			switch call.Name {
			case "write", "writev", "pwritev2", "sendfile", "splice", "tee":
				call.Fn = withBrokenPipe(call.Fn)
				table.Table[number] = call
			}
		}
		table.Init() // it copies the functions to where they are looked up
	}
}

// withBrokenPipe sends SIGPIPE to a task whose call fails with EPIPE. A signal that was sent already is pending, and is
// not delivered twice.
func withBrokenPipe(fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		n, control, err := fn(t, number, args)
		if linuxerr.Equals(linuxerr.EPIPE, err) {
			_ = t.SendSignal(kernel.SignalInfoNoInfo(linux.SIGPIPE, t, t)) // it fails for a task that is ending
		}
		return n, control, err
	}
}
