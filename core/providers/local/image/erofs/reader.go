package erofs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"
)

// ErrDamaged is the error for a file that this package did not write, or that has changed since.
var ErrDamaged = errors.New("the file system is damaged")

// maxDepth bounds nested directories.
const maxDepth = 4096

// Read returns the root directory of a complete file system. The error is ErrDamaged if Finish did not write the file.
func Read(file *os.File) (root *Node, err error) {
	root, _, err = read(file)
	return root, err
}

// Content returns the content of a regular file of the file system in file.
func Content(file io.ReaderAt, n *Node) *io.SectionReader {
	return io.NewSectionReader(file, int64(n.block)<<blockBits, n.size)
}

// reader reads the inodes of a file system.
type reader struct {
	// meta are the inodes and directories, which are at the end of the file.
	meta []byte
	// start is the offset of meta in the file.
	start int64
	nodes map[uint64]*Node
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// read returns the root directory, and the offset of the part that Finish wrote.
func read(file *os.File) (root *Node, meta int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	super := make([]byte, blockSize)
	if _, err := file.ReadAt(super, 0); err != nil {
		return nil, 0, damaged("it is shorter than a block: %v", err)
	}
	super = super[superOffset:]
	le := binary.LittleEndian
	sum := le.Uint32(super[4:])
	le.PutUint32(super[4:], 0)
	meta = int64(le.Uint32(super[40:])) << blockBits
	switch {
	case le.Uint32(super) != magic || le.Uint32(super[8:]) != features || super[12] != blockBits:
		return nil, 0, damaged("it has another format")
	case ^crc32.Checksum(super, crc32.MakeTable(crc32.Castagnoli)) != sum:
		return nil, 0, damaged("its first block has changed")
	case int64(le.Uint32(super[36:]))<<blockBits != info.Size() || meta < blockSize || meta >= info.Size():
		return nil, 0, damaged("it has %d bytes", info.Size())
	}
	r := &reader{meta: make([]byte, info.Size()-meta), start: meta, nodes: map[uint64]*Node{}}
	if _, err := file.ReadAt(r.meta, meta); err != nil {
		return nil, 0, err
	}
	root, err = r.node(uint64(le.Uint16(super[14:])), 0)
	if err == nil && !root.IsDir() {
		err = damaged("its root is not a directory")
	}
	return root, meta, err
}

// node returns an inode with all below it.
func (r *reader) node(nid uint64, depth int) (*Node, error) {
	if known := r.nodes[nid]; known != nil {
		if known.IsDir() {
			return nil, damaged("the directory %d has two names", nid)
		}
		return known, nil
	}
	at := int64(nid) << slotBits //nolint:gosec // checked below
	if nid >= 1<<48 || at+inodeSize > int64(len(r.meta)) || depth > maxDepth {
		return nil, damaged("there is no inode %d", nid)
	}
	le := binary.LittleEndian
	b := r.meta[at : at+inodeSize]
	format := le.Uint16(b)
	n := &Node{
		mode: le.Uint16(b[4:]), uid: le.Uint32(b[24:]), gid: le.Uint32(b[28:]),
		mtime: int64(le.Uint64(b[32:])), nsec: le.Uint32(b[40:]), //nolint:gosec // a time
		inline: format == 1|2<<1,
	}
	if format != 1 && !n.inline || n.nsec >= uint32(time.Second) {
		return nil, damaged("the inode %d has another format", nid)
	}
	r.nodes[nid] = n
	size, place := int64(le.Uint64(b[8:])), le.Uint32(b[16:]) //nolint:gosec // checked below
	switch n.mode & TypeMask {
	case TypeFile:
		n.size, n.block = size, place
		if size < 0 || size > r.start || int64(place)<<blockBits > r.start-size {
			return nil, damaged("the inode %d has content outside of the file", nid)
		}
		return n, nil
	case TypeChar, TypeBlock:
		n.rdev = place
		return n, nil
	case TypeFIFO, TypeSocket:
		return n, nil
	case TypeDir, TypeLink:
	default:
		return nil, damaged("the inode %d has an unknown type", nid)
	}
	from := at + inodeSize
	if !n.inline {
		from = int64(place)<<blockBits - r.start
	}
	if size <= 0 || from < 0 || from > int64(len(r.meta)) || size > int64(len(r.meta))-from {
		return nil, damaged("the inode %d has content outside of the file", nid)
	}
	data := r.meta[from : from+size]
	if !n.IsDir() {
		n.target = string(data)
		return n, nil
	}
	n.children = map[string]*Node{}
	return n, r.entries(n, data, depth)
}

// entries adds the entries of a directory.
func (r *reader) entries(dir *Node, data []byte, depth int) error {
	le := binary.LittleEndian
	for len(data) > 0 {
		block := data[:min(len(data), blockSize)]
		data = data[len(block):]
		if len(block) < entrySize {
			return damaged("a directory ends in an entry")
		}
		first := int(le.Uint16(block[8:]))
		if first < entrySize || first%entrySize != 0 || first > len(block) {
			return damaged("a directory has an entry without a name")
		}
		count := first / entrySize
		for i := range count {
			entry := block[i*entrySize:]
			from, to := int(le.Uint16(entry[8:])), len(block)
			if i+1 < count {
				to = int(le.Uint16(entry[entrySize+8:]))
			}
			if from > to || to > len(block) {
				return damaged("a directory has an entry without a name")
			}
			name, _, _ := strings.Cut(string(block[from:to]), "\x00")
			if name == "." || name == ".." {
				continue
			}
			if name == "" || strings.Contains(name, "/") {
				return damaged("a directory has the entry %q", name)
			}
			child, err := r.node(le.Uint64(entry), depth+1)
			if err != nil {
				return err
			}
			if dir.Add(name, child) != nil {
				return damaged("a directory has the entry %q twice", name)
			}
		}
	}
	return nil
}
