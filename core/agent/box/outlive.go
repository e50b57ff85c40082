//go:build linux

package box

import (
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outlive handles the signals that root inside could send, so that none of them ends this process: the end of a sandbox
// must be reported. They are caught, not ignored, because commands inherit ignored signals. A processor exception of
// this program still ends it.
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

// Go leaves these two signals to the threads of C libraries, so this program cannot catch them. Go uses the number
// between them itself.
//
// By default they can end a first process, too. While its first thread blocks signals, to start a program, another
// thread takes the signal and the process ends. A program whose library needs the signals sets its own handlers.
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
