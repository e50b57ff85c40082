//go:build linux

package hostview

import (
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/erofs"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// imageConnection is a connection of the sandbox's kernel to an image with mounts.
type imageConnection struct{ connection }

var _ lisafs.ConnectionImpl = (*imageConnection)(nil)

// Mount implements lisafs.ConnectionImpl.
func (c *imageConnection) Mount(
	conn *lisafs.Connection, root *lisafs.Node,
) (*lisafs.ControlFD, lisafs.Statx, int, error) {
	tree, err := c.open()
	if err != nil {
		return nil, lisafs.Statx{}, -1, err
	}
	inode, err := tree.image.Inode(tree.image.RootNid())
	if err != nil {
		return nil, lisafs.Statx{}, -1, err
	}
	root.IncRef() // for the node's descriptor
	f := &imageFile{tree: tree, at: place{path: "/", inode: &inode, mount: -1}}
	attributes := f.at.attributes()
	f.Init(conn, root, mode(unix.Statx_t{Mode: attributes.Mode}), f)
	return f.FD(), attributes, -1, nil
}

// open opens the image and the mounts. They are open until the gofer ends.
func (c *imageConnection) open() (*imageTree, error) {
	// The root of this process is the view.
	fd, err := unix.Open("/"+ImageFile, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	tree := &imageTree{mounts: map[string]int{}, view: &view{own: map[uint64]bool{}}}
	if tree.image, err = erofs.OpenImage(os.NewFile(uintptr(fd), ImageFile)); err != nil {
		return nil, err
	}
	for i, target := range c.own {
		fd, err := unix.Open("/"+MountDir(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		attr, err := stat(fd, "")
		if err != nil {
			return nil, err
		}
		tree.mounts[path.Clean(target)] = fd
		tree.view.own[attr.Mnt_id] = true
	}
	return tree, nil
}

// SupportedMessages implements lisafs.ConnectionImpl. A walk of several steps could lead from the image to a mount.
func (c *imageConnection) SupportedMessages() []lisafs.MID {
	return slices.DeleteFunc(c.connection.SupportedMessages(), func(m lisafs.MID) bool { return m == lisafs.WalkStat })
}
