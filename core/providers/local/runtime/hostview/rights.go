//go:build linux

package hostview

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// view decides what of the host is shown.
type view struct {
	skeleton uint64 // the mount that the view is made of: all that is in it is ours, and what is mounted in it was named
	named    []string
}

const (
	othersRead  = 0o004
	othersEnter = 0o001
)

// shows says whether what is called name in a directory is shown.
func (v *view) shows(parent unix.Statx_t, dir func() string, name string, child unix.Statx_t) bool {
	if !v.lists(parent) {
		return false
	}
	if parent.Mnt_id != v.skeleton && child.Mnt_id != parent.Mnt_id && !slices.Contains(v.named, path.Join(dir(), name)) {
		return false
	}
	return child.Mnt_id == v.skeleton || child.Mode&unix.S_IFMT != unix.S_IFREG || child.Mode&othersRead != 0
}

// lists says whether the files in a directory are shown: the sandbox's kernel takes a list of them for complete.
func (v *view) lists(dir unix.Statx_t) bool {
	return dir.Mnt_id == v.skeleton || dir.Mode&othersRead != 0 && dir.Mode&othersEnter != 0
}
