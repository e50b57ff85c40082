//go:build linux

package box

import (
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outlive makes the signals that root inside could send no reason to end: what end of a sandbox that is has to be told.
// They are caught, not ignored, for what is ignored stays so in every command; and one of the processor's that comes
// from within still ends the program.
func outlive() {
	signal.Notify(
		make(chan os.Signal, 1), unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGVTALRM,
		unix.SIGIO, unix.SIGPWR,
		unix.SIGXCPU, unix.SIGXFSZ, unix.SIGPIPE, unix.SIGSTKFLT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
		unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGSYS, unix.SIGPROF,
	)
	ignore(firstOfLibraries)
	ignore(thirdOfLibraries)
}

// Go leaves these signals to the threads of C libraries, so they cannot be caught; the one between it has for itself.
// The kernel does not spare a first process that has them by default: while its first thread blocks signals, to start a
// program, another thread takes the signal and all end. A program whose library needs them sets them up for itself.
const (
	firstOfLibraries = 32
	thirdOfLibraries = 34
)

func ignore(number uintptr) {
	// struct sigaction as rt_sigaction(2) takes it: SIG_IGN, and no flags.
	action := struct{ handler, flags, restorer, mask uintptr }{handler: 1}
	_, _, _ = unix.RawSyscall6(
		unix.SYS_RT_SIGACTION, number, uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action.mask), 0, 0,
	)
}
