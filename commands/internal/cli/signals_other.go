//go:build !unix

package cli

import (
	"os"
	"syscall"
)

func caughtSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func isResize(os.Signal) bool { return false }

func guestSignal(s os.Signal) int { return SignalNumber(s) }
