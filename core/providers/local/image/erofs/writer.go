package erofs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
)

const (
	blockBits = 12
	blockSize = 1 << blockBits
	slotBits  = 5
	inodeSize = 64
	entrySize = 12
	// superOffset is the offset of the superblock in the first block. superSize is its size.
	superOffset, superSize = 1024, 128
	magic                  = 0xE0F5E1E2
	// features are a checksum of the first block, and inodes with modification times.
	features = 0x1 | 0x2
	// bufferSize is the size of a write in bytes.
	bufferSize = 1 << 20
)

// Writer writes one file system. File writes the content of files, and Finish writes the rest. It is not safe for
// concurrent use.
type Writer struct {
	// Root is the root directory.
	Root *Node

	out *os.File
	// end is the next free byte, at the start of a block.
	end int64
	// meta is where Finish began to write, or 0. The next change of the file overwrites that part.
	meta   int64
	buffer []byte
}

// Create returns a writer into a new and empty file. The caller closes the file.
func Create(out *os.File) *Writer {
	root := NewNode(Attr{Mode: TypeDir | 0o755})
	root.links = 1
	return &Writer{Root: root, out: out, end: blockSize, buffer: make([]byte, bufferSize)}
}

// Reopen returns a writer that changes a complete file system. The file is unusable until the next Finish. The caller
// closes the file. The error is ErrDamaged if Create and Finish did not write the file.
func Reopen(out *os.File) (*Writer, error) {
	root, meta, err := read(out)
	if err != nil {
		return nil, err
	}
	root.links = 1
	return &Writer{Root: root, out: out, end: meta, meta: meta, buffer: make([]byte, bufferSize)}, nil
}

// Content returns the content of a regular file.
func (w *Writer) Content(n *Node) *io.SectionReader { return Content(w.out, n) }

// unfinish frees the part that Finish wrote.
func (w *Writer) unfinish() error {
	if w.meta == 0 {
		return nil
	}
	w.end, w.meta = w.meta, 0
	return w.out.Truncate(w.end) // append leaves out zeros
}

// File returns a regular file with the content of r. After an error, content that was read before it remains unused.
func (w *Writer) File(attr Attr, r io.Reader) (*Node, error) {
	if err := w.unfinish(); err != nil {
		return nil, err
	}
	start := w.end
	var size int64
	for {
		n, err := io.ReadFull(r, w.buffer)
		size += int64(n)
		if writeErr := w.append(w.buffer[:n]); writeErr != nil {
			return nil, writeErr
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	node := NewNode(attr)
	if node.size = size; size > 0 {
		node.block = uint32(start >> blockBits) //nolint:gosec // append refuses more
	}
	return node, nil
}

// append writes data at the end, except for blocks of zeros, and moves the end to the next block.
func (w *Writer) append(data []byte) error {
	next := (w.end + int64(len(data)) + blockSize - 1) &^ (blockSize - 1)
	if next>>blockBits > math.MaxUint32 {
		return &fs.PathError{Op: "write", Path: w.out.Name(), Err: errors.New("the file system is larger than 16 TiB")}
	}
	for at := 0; at < len(data); {
		for at < len(data) && isZero(data[at:min(at+blockSize, len(data))]) {
			at += blockSize
		}
		run := at
		for at < len(data) && !isZero(data[at:min(at+blockSize, len(data))]) {
			at += blockSize
		}
		if run < len(data) {
			if _, err := w.out.WriteAt(data[run:min(at, len(data))], w.end+int64(run)); err != nil {
				return err
			}
		}
	}
	w.end = next
	return nil
}

func isZero(block []byte) bool {
	// A block of one repeated byte equals itself shifted by one.
	return len(block) == 0 || block[0] == 0 && bytes.Equal(block[1:], block[:len(block)-1])
}

// Free frees the disk space of a file without a name, and of all below it.
func (w *Writer) Free(n *Node) {
	holder := NewNode(Attr{Mode: TypeDir})
	holder.Swap("n", n)
	w.Remove(holder, "n")
}

// Remove removes an entry of a directory with all below it, and returns the number of removed inodes. It frees the disk
// space of files without a name, if the output's file system supports that.
func (w *Writer) Remove(dir *Node, name string) int {
	child := dir.children[name]
	if child == nil {
		return 0
	}
	delete(dir.children, name)
	gone := 0
	for below := range child.children {
		gone += w.Remove(child, below)
	}
	if child.links--; child.links > 0 {
		return gone
	}
	if child.IsFile() && child.size > 0 {
		punch(w.out, int64(child.block)<<blockBits, (child.size+blockSize-1)&^(blockSize-1))
	}
	return gone + 1
}

// Finish writes the inodes, the directories and the superblock. It does not wait for the disk. id becomes the UUID of
// the file system. More changes and another Finish may follow.
func (w *Writer) Finish(id [16]byte) error {
	if err := w.unfinish(); err != nil {
		return err
	}
	plan := &plan{}
	forget(w.Root)
	plan.add(w.Root, w.Root)
	meta := w.end
	if err := w.writeNodes(plan, meta); err != nil {
		return err
	}
	// Plain directories and links follow the inodes.
	if err := w.writePlain(plan); err != nil {
		return err
	}
	if err := w.out.Truncate(w.end); err != nil {
		return err
	}
	w.meta = meta
	return w.writeSuper(plan, meta, id)
}

// forget removes the positions of an earlier plan.
func forget(n *Node) {
	n.nid, n.order = 0, nil
	for _, child := range n.children {
		forget(child)
	}
}

// writeSuper writes the first block.
func (w *Writer) writeSuper(plan *plan, meta int64, id [16]byte) error {
	block := make([]byte, blockSize)
	super := block[superOffset:]
	le := binary.LittleEndian
	le.PutUint32(super, magic)
	le.PutUint32(super[8:], features)
	super[12] = blockBits
	le.PutUint16(super[14:], uint16(w.Root.nid)) //nolint:gosec // it is the first inode
	le.PutUint64(super[16:], uint64(len(plan.nodes)))
	le.PutUint32(super[36:], uint32(w.end>>blockBits)) //nolint:gosec // append refuses more
	le.PutUint32(super[40:], uint32(meta>>blockBits))  //nolint:gosec // append refuses more
	copy(super[48:], id[:])
	le.PutUint32(super[4:], ^crc32.Checksum(super, crc32.MakeTable(crc32.Castagnoli)))
	_, err := w.out.WriteAt(block, 0)
	return err
}

// plan has the positions of all inodes.
type plan struct {
	nodes []planned
	// end is the size of the inodes in bytes. plain is the size of the plain directories and links after them, in blocks.
	end, plain int64
}

type planned struct{ node, parent *Node }

// add gives n and all inodes below it a position.
func (p *plan) add(n, parent *Node) {
	if n.nid != 0 {
		return
	}
	p.nodes = append(p.nodes, planned{n, parent})
	if p.end == 0 {
		// No inode has number 0: programs treat such a directory entry as removed.
		p.end = inodeSize
	}
	if n.IsDir() {
		n.order = make([]string, 0, len(n.children)+2)
		n.order = append(n.order, ".", "..")
		n.subdirs = 0
		for name, child := range n.children {
			n.order = append(n.order, name)
			if child.IsDir() {
				n.subdirs++
			}
		}
		slices.Sort(n.order)
		n.size = dirSize(n.order)
	} else if n.target != "" {
		n.size = int64(len(n.target))
	}
	size := int64(inodeSize)
	if n.mode&TypeMask == TypeDir || n.mode&TypeMask == TypeLink {
		if n.inline = n.size < blockSize-inodeSize; n.inline {
			size += n.size
		} else {
			p.plain += (n.size + blockSize - 1) >> blockBits
		}
	}
	// An inode and its inline data must be in one block.
	if p.end&(blockSize-1)+size > blockSize {
		p.end = (p.end + blockSize - 1) &^ (blockSize - 1)
	}
	n.nid = uint64(p.end >> slotBits) //nolint:gosec // it is positive
	p.end = (p.end + size + 1<<slotBits - 1) &^ (1<<slotBits - 1)
	for _, name := range n.order {
		if child := n.children[name]; child != nil {
			p.add(child, n)
		}
	}
}

// writeNodes writes the inodes at meta, and moves the end behind them.
func (w *Writer) writeNodes(p *plan, meta int64) error {
	inodes := (p.end + blockSize - 1) &^ (blockSize - 1)
	if (meta+inodes)>>blockBits+p.plain > math.MaxUint32 {
		return &fs.PathError{Op: "write", Path: w.out.Name(), Err: errors.New("the file system is larger than 16 TiB")}
	}
	w.end = meta + inodes
	plain := w.end >> blockBits
	out := bufio.NewWriterSize(io.NewOffsetWriter(w.out, meta), bufferSize)
	var at int64
	for i, one := range p.nodes {
		n := one.node
		pad := int64(n.nid)<<slotBits - at //nolint:gosec // it is a place in the file
		if _, err := out.Write(make([]byte, pad)); err != nil {
			return err
		}
		at += pad
		if !n.inline && n.mode&TypeMask != TypeFile && n.size > 0 {
			n.block = uint32(plain) //nolint:gosec // checked above
			plain += (n.size + blockSize - 1) >> blockBits
		}
		if _, err := out.Write(n.inode(uint32(i + 1))); err != nil {
			return err
		}
		at += inodeSize
		if n.inline {
			if err := n.writeData(out, one.parent); err != nil {
				return err
			}
			at += n.size
		}
	}
	return out.Flush()
}

// writePlain writes the directories and links that are not inline.
func (w *Writer) writePlain(p *plan) error {
	out := bufio.NewWriterSize(io.NewOffsetWriter(w.out, w.end), bufferSize)
	for _, one := range p.nodes {
		if n := one.node; n.mode&TypeMask != TypeFile && !n.inline && n.size > 0 {
			if err := n.writeData(out, one.parent); err != nil {
				return err
			}
			if _, err := out.Write(make([]byte, -n.size&(blockSize-1))); err != nil {
				return err
			}
		}
	}
	w.end += p.plain << blockBits
	return out.Flush()
}

// inode returns the extended form of an inode. number is for programs with 32-bit inode numbers only.
func (n *Node) inode(number uint32) []byte {
	b := make([]byte, inodeSize)
	le := binary.LittleEndian
	// Bit 0 is the extended form, bits 1 to 3 the layout: 0 is plain, 2 inline.
	format := uint16(1)
	if n.inline {
		format |= 2 << 1
	}
	place := n.block
	if kind := n.mode & TypeMask; kind == TypeChar || kind == TypeBlock {
		place = n.rdev
	}
	le.PutUint16(b, format)
	le.PutUint16(b[4:], n.mode)
	le.PutUint64(b[8:], uint64(n.size)) //nolint:gosec // it is positive
	le.PutUint32(b[16:], place)
	le.PutUint32(b[20:], number)
	le.PutUint32(b[24:], n.uid)
	le.PutUint32(b[28:], n.gid)
	le.PutUint64(b[32:], uint64(n.mtime)) //nolint:gosec // it is positive
	le.PutUint32(b[40:], n.nsec)
	links := n.links
	if n.IsDir() {
		links = 2 + n.subdirs
	}
	le.PutUint32(b[44:], links)
	return b
}

// writeData writes the entries of a directory, or a link's target.
func (n *Node) writeData(out io.Writer, parent *Node) error {
	if !n.IsDir() {
		_, err := io.WriteString(out, n.target)
		return err
	}
	for rest := n.order; len(rest) > 0; {
		count, used := fill(rest)
		block := make([]byte, used, blockSize)
		nameAt := count * entrySize
		for i, name := range rest[:count] {
			to := n.children[name]
			switch name {
			case ".":
				to = n
			case "..":
				to = parent
			}
			entry := block[i*entrySize:]
			binary.LittleEndian.PutUint64(entry, to.nid)
			binary.LittleEndian.PutUint16(entry[8:], uint16(nameAt)) //nolint:gosec // it is in the block
			entry[10] = entryType(to.mode)
			nameAt += copy(block[nameAt:], name)
		}
		if rest = rest[count:]; len(rest) > 0 {
			block = block[:blockSize]
		}
		if _, err := out.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// fill returns the number of entries that fit in one block, and their size in bytes.
func fill(names []string) (count, used int) {
	for _, name := range names {
		if used+entrySize+len(name) > blockSize {
			break
		}
		used += entrySize + len(name)
		count++
	}
	return count, used
}

// dirSize returns the size of a directory's entries: whole blocks except for the last.
func dirSize(names []string) (size int64) {
	for {
		count, used := fill(names)
		if names = names[count:]; len(names) == 0 {
			return size + int64(used)
		}
		size += blockSize
	}
}

// entryType returns the file type in the form of directory entries.
func entryType(mode uint16) byte {
	switch mode & TypeMask {
	case TypeFile:
		return 1
	case TypeDir:
		return 2
	case TypeChar:
		return 3
	case TypeBlock:
		return 4
	case TypeFIFO:
		return 5
	case TypeSocket:
		return 6
	case TypeLink:
		return 7
	}
	return 0
}
