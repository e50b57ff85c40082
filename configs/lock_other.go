//go:build !unix

package configs

// lockDir does nothing: this system cannot lock a directory.
func lockDir(string) (unlock func(), err error) { return func() {}, nil }
