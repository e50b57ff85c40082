//go:build !linux

package transfer

import "os"

// replacer renames files over others below root.
type replacer struct{ root *os.Root }

func (r *replacer) close() error { return nil }

// replace renames the file from to the name to, both below root, and replaces an existing file. An existing directory
// stays, and is an error.
func (r *replacer) replace(from, to string) error { return r.root.Rename(from, to) }
