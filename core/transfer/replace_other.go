//go:build !linux

package transfer

import "os"

// replace gives the file at from the name to, in place of the file that may be there. A directory that is there stays, and is an error.
func replace(from, to string) error { return os.Rename(from, to) }
