//go:build !unix

package configs

// lockDir does nothing where directories cannot be locked.
func lockDir(string) (unlock func(), err error) { return func() {}, nil }
