//go:build !linux

package transfer

import "os"

// replace gives the file at from the name to, both below root, in place of the file that may be there. A directory that
// is there stays, and is an error.
func replace(root *os.Root, from, to string) error { return root.Rename(from, to) }
