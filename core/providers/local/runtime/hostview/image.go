//go:build linux

package hostview

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/erofs"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/marshal/primitive"
	"gvisor.dev/gvisor/pkg/safemem"
)

// imageDevice is the device of an image's files. No device of Linux has this number.
const imageDevice = 0xfffff

// imageTree is an image with mounts of the host in it. gVisor's kernel can read an image, too, but can mount
// nothing in it below the writable layer.
type imageTree struct {
	image *erofs.Image
	// mounts are the descriptors of the mounted directories, by their path in the sandbox.
	mounts map[string]int
	view   *view
}

// place is a file of the tree.
type place struct {
	path string
	// inode is nil for a directory that only leads to a mount.
	inode *erofs.Inode
	// mount is the descriptor of a mounted directory, or -1.
	mount int
}

// MountDir returns the path, relative to the root of the view, of the mount with an index in the list of Annotations.
// An image's view has its mounts there, and its image at ImageFile.
func MountDir(index int) string { return "own/" + strconv.Itoa(index) }

// ImageFile is the path of the image, relative to the root of the view.
const ImageFile = "image"

// leads reports whether a mount is below a path.
func (t *imageTree) leads(name string) bool {
	for target := range t.mounts {
		if strings.HasPrefix(target, strings.TrimSuffix(name, "/")+"/") {
			return true
		}
	}
	return false
}

// child returns an entry of a directory.
func (t *imageTree) child(dir place, name string) (place, error) {
	at := place{path: path.Join(dir.path, name), mount: -1}
	if fd, mounted := t.mounts[at.path]; mounted {
		at.mount = fd
		return at, nil
	}
	if dir.inode != nil {
		nid, err := dir.inode.Lookup(name)
		if err == nil {
			inode, err := t.image.Inode(nid)
			at.inode = &inode
			return at, err
		}
		if !linuxerr.Equals(linuxerr.ENOENT, err) {
			return at, err
		}
	}
	if t.leads(at.path) {
		return at, nil
	}
	return at, unix.ENOENT
}

// attributes describes a file of the image.
func (p place) attributes() lisafs.Statx {
	if p.inode == nil {
		return lisafs.Statx{
			Mask: unix.STATX_BASIC_STATS, Mode: unix.S_IFDIR | 0o755, Nlink: 2, Ino: 1<<63 | hash(p.path),
			DevMajor: imageDevice, Blksize: 4096,
		}
	}
	modified := lisafs.StatxTimestamp{
		Sec: int64(p.inode.Mtime()), Nsec: p.inode.MtimeNsec(), //nolint:gosec // a time
	}
	return lisafs.Statx{
		Mask: unix.STATX_BASIC_STATS, Mode: p.inode.Mode(), Ino: p.inode.Nid(), Nlink: p.inode.Nlink(), UID: p.inode.UID(),
		GID: p.inode.GID(), DevMajor: imageDevice, Size: p.inode.Size(), Blksize: 4096, Blocks: (p.inode.Size() + 511) / 512,
		Atime: modified, Mtime: modified, Ctime: modified,
	}
}

// hash numbers the directories that only lead to a mount (FNV-1a).
func hash(text string) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(text) {
		sum = (sum ^ uint64(text[i])) * 1099511628211
	}
	return sum >> 1
}

// imageFile is a file of an image after a lookup by the sandbox's kernel.
type imageFile struct {
	lisafs.ControlFD
	readOnly

	tree *imageTree
	at   place
}

var _ lisafs.ControlFDImpl = (*imageFile)(nil)

// FD implements lisafs.ControlFDImpl.
func (f *imageFile) FD() *lisafs.ControlFD { return &f.ControlFD }

// Close implements lisafs.ControlFDImpl.
func (*imageFile) Close() {}

// Stat implements lisafs.ControlFDImpl.
func (f *imageFile) Stat() (lisafs.Statx, error) { return f.at.attributes(), nil }

// Walk implements lisafs.ControlFDImpl.
func (f *imageFile) Walk(name string) (*lisafs.ControlFD, lisafs.Statx, error) {
	at, err := f.tree.child(f.at, name)
	if err != nil {
		return nil, lisafs.Statx{}, err
	}
	var mounted *file
	if at.mount >= 0 {
		fd, err := unix.Openat(at.mount, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, lisafs.Statx{}, err
		}
		attr, err := stat(fd, "")
		if err != nil {
			_ = unix.Close(fd)
			return nil, lisafs.Statx{}, err
		}
		mounted = &file{view: f.tree.view, fd: fd, attr: attr}
	}
	var node *lisafs.Node
	parent := f.Node()
	parent.WithChildrenMu(func() {
		if node = parent.LookupChildLocked(name); node != nil {
			node.IncRef()
			return
		}
		node = &lisafs.Node{}
		node.InitLocked(name, parent)
	})
	if mounted != nil {
		mounted.Init(f.Conn(), node, mode(mounted.attr), mounted)
		return mounted.FD(), answer(mounted.attr), nil
	}
	child, attributes := &imageFile{tree: f.tree, at: at}, at.attributes()
	child.Init(f.Conn(), node, mode(unix.Statx_t{Mode: attributes.Mode}), child)
	return child.FD(), attributes, nil
}

// WalkStat implements lisafs.ControlFDImpl. The connection does not offer it.
func (*imageFile) WalkStat(lisafs.StringArray, func(lisafs.Statx)) error { return unix.EOPNOTSUPP }

// Open implements lisafs.ControlFDImpl.
func (f *imageFile) Open(flags uint32) (*lisafs.OpenFD, int, error) {
	opened := &imageOpen{file: f}
	var err error
	switch {
	case f.at.inode != nil && f.at.inode.IsRegular():
		opened.data, err = f.at.inode.Data()
	case f.IsDir():
		opened.entries, err = f.entries()
	default:
		err = unix.EPERM
	}
	if err != nil {
		return nil, -1, err
	}
	opened.Init(f.FD(), flags, opened)
	return opened.FD(), -1, nil
}

// entries lists a directory.
func (f *imageFile) entries() ([]string, error) {
	var names []string
	if f.at.inode != nil {
		err := f.at.inode.IterDirents(func(name string, _ uint8, _ uint64) error {
			if name != "." && name != ".." {
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for target := range f.tree.mounts {
		rest, below := strings.CutPrefix(target, strings.TrimSuffix(f.at.path, "/")+"/")
		if name, _, _ := strings.Cut(rest, "/"); below && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// StatFS implements lisafs.ControlFDImpl.
func (f *imageFile) StatFS() (lisafs.StatFS, error) {
	return lisafs.StatFS{
		Type: unix.EROFS_SUPER_MAGIC_V1, BlockSize: int64(f.tree.image.BlockSize()), Blocks: uint64(f.tree.image.Blocks()),
		NameLength: 255,
	}, nil
}

// Readlink implements lisafs.ControlFDImpl.
func (f *imageFile) Readlink(buffer func(uint32) []byte) (uint16, error) {
	if f.at.inode == nil {
		return 0, unix.EINVAL
	}
	target, err := f.at.inode.Readlink()
	if err != nil || len(target) > unix.PathMax {
		return 0, errors.Join(err, unix.ENAMETOOLONG)
	}
	return uint16(copy(buffer(uint32(len(target))), target)), nil //nolint:gosec // a path
}

// GetXattr implements lisafs.ControlFDImpl. A stored image has no extended attributes.
func (*imageFile) GetXattr(string, uint32, func(uint32) []byte) (uint16, error) {
	return 0, unix.ENODATA
}

// ListXattr implements lisafs.ControlFDImpl.
func (*imageFile) ListXattr(uint64) (lisafs.StringArray, error) { return nil, nil }

// imageOpen is an open file of an image.
type imageOpen struct {
	lisafs.OpenFD

	file    *imageFile
	data    safemem.BlockSeq
	entries []string
	next    int // of entries
}

var _ lisafs.OpenFDImpl = (*imageOpen)(nil)

// FD implements lisafs.OpenFDImpl.
func (o *imageOpen) FD() *lisafs.OpenFD { return &o.OpenFD }

// Close implements lisafs.OpenFDImpl.
func (*imageOpen) Close() {}

// Stat implements lisafs.OpenFDImpl.
func (o *imageOpen) Stat() (lisafs.Statx, error) { return o.file.Stat() }

// Read implements lisafs.OpenFDImpl.
func (o *imageOpen) Read(buf []byte, off uint64) (uint64, error) {
	if off >= o.data.NumBytes() {
		return 0, nil
	}
	return safemem.CopySeq(safemem.BlockSeqOf(safemem.BlockFromSafeSlice(buf)), o.data.DropFirst64(off))
}

// Getdent64 implements lisafs.OpenFDImpl.
func (o *imageOpen) Getdent64(count uint32, seek0 bool, record func(lisafs.Dirent64)) error {
	if seek0 {
		o.next = 0
	}
	for recorded := 0; recorded < int(count) && o.next < len(o.entries); {
		name := o.entries[o.next]
		at, err := o.file.tree.child(o.file.at, name)
		if err != nil {
			return err
		}
		attributes := at.attributes()
		if at.mount >= 0 {
			attr, err := stat(at.mount, "")
			if err != nil {
				return err
			}
			attributes = answer(attr)
		}
		o.next++
		record(lisafs.Dirent64{
			Ino: primitive.Uint64(attributes.Ino), DevMajor: primitive.Uint32(attributes.DevMajor),
			DevMinor: primitive.Uint32(attributes.DevMinor), Off: primitive.Uint64(o.next), //nolint:gosec // a position
			Type: primitive.Uint8(attributes.Mode >> 12), // DT_DIR and the others are these bits: readdir(3)
			Name: lisafs.SizedString(name),
		})
		recorded += len(name) + 24 // as in getdents64(2)
	}
	return nil
}

// Sync implements lisafs.OpenFDImpl.
func (*imageOpen) Sync() error { return nil }

// Write implements lisafs.OpenFDImpl.
func (*imageOpen) Write([]byte, uint64) (uint64, error) { return 0, unix.EROFS }

// Allocate implements lisafs.OpenFDImpl.
func (*imageOpen) Allocate(uint64, uint64, uint64) error { return unix.EROFS }

// Flush implements lisafs.OpenFDImpl.
func (*imageOpen) Flush() error { return nil }

// Renamed implements lisafs.OpenFDImpl.
func (*imageOpen) Renamed() {}
