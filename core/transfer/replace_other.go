//go:build !linux

package transfer

import "os"

// replace renames the file from to the name to, both below root, and replaces an existing file. An existing directory
// stays, and is an error.
func replace(root *os.Root, from, to string) error { return root.Rename(from, to) }
