//go:build !unix

package configs

import "os"

// private says why a directory cannot be used, or nil.
func private(dir string) error {
	_, err := os.Stat(dir)
	return err
}
