//go:build !linux

package core

// BootID names this boot of the machine; it is known on Linux only.
func BootID() string { return "" }

// ProcessStart is known on Linux only.
func ProcessStart(int) (uint64, bool) { return 0, false }
