//go:build linux

package hostview

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// view decides which files of the host are shown.
type view struct {
	skeleton uint64 // the view's own mount: its files are shown, and all mounts in it are listed
	named    []string
	// own are the mounts that the launching user chose to show: what others may read does not matter there.
	own map[uint64]bool
}

const (
	othersRead  = 0o004
	othersEnter = 0o001
)

// shows reports whether the entry name of a directory is shown.
func (v *view) shows(parent unix.Statx_t, dir func() string, name string, child unix.Statx_t) bool {
	if !v.lists(parent) {
		return false
	}
	if v.own[child.Mnt_id] {
		return true
	}
	if parent.Mnt_id != v.skeleton && child.Mnt_id != parent.Mnt_id && !slices.Contains(v.named, path.Join(dir(), name)) {
		return false
	}
	return child.Mnt_id == v.skeleton || child.Mode&unix.S_IFMT != unix.S_IFREG || child.Mode&othersRead != 0
}

// lists reports whether files in a directory are shown. A directory that others may enter but not list shows none,
// because the sandbox's kernel treats a list as complete.
func (v *view) lists(dir unix.Statx_t) bool {
	return dir.Mnt_id == v.skeleton || v.own[dir.Mnt_id] || dir.Mode&othersRead != 0 && dir.Mode&othersEnter != 0
}
