//go:build linux

package program

import (
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotFound is a program that does not exist: exit code 127 in a shell.
	ErrNotFound = errors.New("program not found")
	// ErrNotExecutable reports a program that must not be executed: exit code 126.
	ErrNotExecutable = errors.New("program cannot be executed")
)

// DefaultPath is where programs are looked for without a PATH.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Find returns the file of a program. A name with a slash is a path, relative to dir unless it is absolute. Find
// searches path for other names. EACCES wins over ENOENT, because it explains more.
func Find(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) && dir != "" {
			return name, executable(filepath.Join(dir, name))
		}
		return name, executable(name)
	}
	var result error = unix.ENOENT
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		switch err := executable(candidate); {
		case err == nil:
			return candidate, nil
		case errors.Is(err, unix.EACCES):
			result = err
		}
	}
	return "", result
}

// executable returns nil, ENOENT or EACCES, or another errno.
func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}
