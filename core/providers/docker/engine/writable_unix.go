//go:build unix

package engine

import "golang.org/x/sys/unix"

// Writable reports whether this user may connect to a socket.
func Writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }
