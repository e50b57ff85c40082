//go:build !linux

package core

// BootID returns "": the id is known on Linux only.
func BootID() string { return "" }

// ProcessStart returns false: start times are known on Linux only.
func ProcessStart(int) (uint64, bool) { return 0, false }
