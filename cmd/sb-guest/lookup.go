//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultPath is where programs are looked for without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookup finds name as execvp(3) does: one with a slash is a path, any other is searched for
// in PATH. EACCES wins over ENOENT, since it is the better explanation.
func lookup(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	path, ok := os.LookupEnv("PATH")
	if !ok {
		path = defaultPath
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
