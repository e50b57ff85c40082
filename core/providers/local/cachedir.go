//go:build linux

package local

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// cacheDirHint names the setting that moves the writable layers.
const cacheDirHint = "set XDG_CACHE_HOME to a directory on another file system"

// checkCacheDir returns an error if the file system of the writable layers forbids the execution of programs (noexec:
// mount(8)). Programs that are written in a sandbox would crash there.
func (p *Provider) checkCacheDir(op string) error {
	dir := existing(p.opts.CacheDir)
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return stateError(op, &os.PathError{Op: "statfs", Path: dir, Err: err})
	}
	if stat.Flags&unix.ST_NOEXEC == 0 {
		return nil
	}
	return core.Errorf(core.KindUnavailable, "local."+op, "",
		"%s is mounted with noexec, so programs that a sandbox writes could not run", dir).
		WithHint("%s", cacheDirHint)
}

// existing returns path, or the nearest directory above it that exists.
func existing(path string) string {
	for path != "/" && path != "." {
		if _, err := os.Stat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}
