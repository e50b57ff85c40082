package erofs

import (
	"io/fs"
	"time"
)

// File types of Attr.Mode, as in stat(2).
const (
	TypeMask   = 0o170000
	TypeSocket = 0o140000
	TypeLink   = 0o120000
	TypeFile   = 0o100000
	TypeBlock  = 0o060000
	TypeDir    = 0o040000
	TypeChar   = 0o020000
	TypeFIFO   = 0o010000
)

// The largest device numbers of the format.
const (
	MaxMajor = 1<<12 - 1
	MaxMinor = 1<<20 - 1
)

// Attr are the attributes of an inode.
type Attr struct {
	// Mode is a file type and the permission bits, including setuid, setgid and sticky.
	Mode     uint16
	UID, GID uint32
	// ModTime is stored as 1970 if it is earlier.
	ModTime time.Time
	// Major and Minor are the numbers of a device.
	Major, Minor uint32
	// Target is the target of a symbolic link: 1 to 4095 bytes.
	Target string
}

// Node is an inode. An inode that is not a directory may have several names.
type Node struct {
	mode     uint16
	uid, gid uint32
	rdev     uint32
	mtime    int64
	nsec     uint32
	// links counts names.
	links uint32
	// subdirs counts the directories of a directory. plan sets it.
	subdirs uint32
	size    int64
	// block is the first block of the data.
	block  uint32
	target string
	// children are the entries of a directory.
	children map[string]*Node
	// order has the sorted names of children. plan sets it.
	order []string
	// nid is the position of the inode, in slots.
	nid    uint64
	inline bool
}

// NewNode returns an inode that has no name yet. A regular file is empty: Writer.File returns one with content.
func NewNode(attr Attr) *Node {
	n := &Node{}
	n.Set(attr)
	if n.IsDir() {
		n.children = map[string]*Node{}
	}
	return n
}

// Set replaces the attributes. The file type must stay the same.
func (n *Node) Set(attr Attr) {
	n.mode, n.uid, n.gid, n.target = attr.Mode, attr.UID, attr.GID, attr.Target
	n.mtime, n.nsec = 0, 0
	if at := attr.ModTime.Unix(); at >= 0 {
		n.mtime, n.nsec = at, uint32(attr.ModTime.Nanosecond()) //nolint:gosec // below a second
	}
	// The kernel's encoding of a device: its new_encode_dev.
	n.rdev = attr.Minor&0xff | attr.Major<<8 | attr.Minor&^0xff<<12
}

// IsDir reports whether n is a directory.
func (n *Node) IsDir() bool { return n.mode&TypeMask == TypeDir }

// IsFile reports whether n is a regular file.
func (n *Node) IsFile() bool { return n.mode&TypeMask == TypeFile }

// Target returns the target of a symbolic link, and whether n is one.
func (n *Node) Target() (string, bool) { return n.target, n.mode&TypeMask == TypeLink }

// Attr returns the attributes.
func (n *Node) Attr() Attr {
	return Attr{
		Mode: n.mode, UID: n.uid, GID: n.gid, Target: n.target, Major: n.rdev >> 8 & 0xfff,
		Minor: n.rdev&0xff | n.rdev>>12&^0xff, ModTime: time.Unix(n.mtime, int64(n.nsec)),
	}
}

// Size returns the size of a regular file in bytes.
func (n *Node) Size() int64 { return n.size }

// Linked reports whether n has a name.
func (n *Node) Linked() bool { return n.links > 0 }

// Child returns the entry of a directory, or nil.
func (n *Node) Child(name string) *Node { return n.children[name] }

// Children iterates over a directory in no order. The loop may remove the current entry.
func (n *Node) Children(yield func(name string, child *Node) bool) {
	for name, child := range n.children {
		if !yield(name, child) {
			return
		}
	}
}

// Swap replaces the entry of a directory and returns the old one. nil is none.
func (n *Node) Swap(name string, child *Node) (old *Node) {
	old = n.children[name]
	if child == nil {
		delete(n.children, name)
	} else {
		n.children[name] = child
		child.links++
	}
	if old != nil {
		old.links--
	}
	return old
}

// Add gives child a name in the directory n. It returns fs.ErrExist if there is an entry of that name.
func (n *Node) Add(name string, child *Node) error {
	if _, found := n.children[name]; found {
		return fs.ErrExist
	}
	n.children[name] = child
	child.links++
	return nil
}
