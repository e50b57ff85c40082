//go:build unix

package docker

import "golang.org/x/sys/unix"

// writable says whether this user may connect to a socket.
func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }
