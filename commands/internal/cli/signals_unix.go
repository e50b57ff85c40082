//go:build unix

package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// caughtSignals returns the signals that sb passes on to a guest command, without those that sb's parent ignores, as
// nohup does.
func caughtSignals() []os.Signal {
	all := []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	}
	return slices.DeleteFunc(all, signal.Ignored)
}

// isResize reports whether s announces a new terminal size.
func isResize(s os.Signal) bool { return s == syscall.SIGWINCH }

// guestSignal returns the number of s on Linux, which runs in every sandbox.
func guestSignal(s os.Signal) int {
	switch s {
	case syscall.SIGUSR1:
		return 10
	case syscall.SIGUSR2:
		return 12
	}
	return SignalNumber(s)
}
