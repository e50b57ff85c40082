//go:build unix

package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// caughtSignals are the signals that sb passes on to a guest command, less those
// that sb's parent set to be ignored, as nohup does.
func caughtSignals() []os.Signal {
	all := []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	}
	return slices.DeleteFunc(all, signal.Ignored)
}

// isResize says whether s reports a new size of the terminal.
func isResize(s os.Signal) bool { return s == syscall.SIGWINCH }

// guestSignal returns the number that s has in a sandbox, which is Linux.
func guestSignal(s os.Signal) int {
	switch s {
	case syscall.SIGUSR1:
		return 10
	case syscall.SIGUSR2:
		return 12
	}
	return SignalNumber(s)
}
