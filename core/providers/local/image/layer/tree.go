package layer

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

const (
	// The kernel's limits of a name, a path and a link's target, in bytes.
	maxName, maxPath = 255, 4095
	// maxDepth bounds nested directories: no path can have more.
	maxDepth = maxPath / 2
	// maxLinks bounds the symbolic links in the resolution of a path, as in the kernel.
	maxLinks = 40
)

// Names with a meaning in layers.
const (
	whiteout = ".wh."
	// opaque hides the entries of lower layers in its directory.
	opaque = ".wh..wh..opq"
	// reserved is the prefix of names that other tools use internally. Such entries are left out.
	reserved = ".wh..wh."
)

// Tree is the file system of an image, made of its layers. It is not safe for concurrent use.
type Tree struct {
	out    *erofs.Writer
	limits Limits
	meter  *Meter
	// layer is the number of the current layer. The lowest is 1.
	layer   int32
	inodes  int
	headers int
	names   int64
	// facts has an entry for each directory.
	facts map[*erofs.Node]*facts
	// extended has the files with extended attributes in their entries. Some may have been removed.
	extended map[*erofs.Node]bool
}

// facts has the data of a directory that the rules of layers need.
type facts struct {
	parent *erofs.Node
	depth  int
	// from has the layer of each entry, except for those of the lowest layer.
	from map[string]int32
	// opaque is the layer that hid all entries of lower ones.
	opaque int32
}

// New returns an empty tree. Its content goes into out, a new file. meter counts the content that Apply reads.
func New(out *os.File, limits Limits, meter *Meter) *Tree {
	t := &Tree{
		out: erofs.Create(out), limits: limits, meter: meter, facts: map[*erofs.Node]*facts{},
		extended: map[*erofs.Node]bool{},
	}
	t.facts[t.out.Root] = &facts{parent: t.out.Root}
	return t
}

// Reopen returns the tree of a file that Finish completed, as the lowest layer of a new tree. The file is unusable
// until the next Finish.
func Reopen(out *os.File, limits Limits, meter *Meter) (*Tree, error) {
	w, err := erofs.Reopen(out)
	if err != nil {
		return nil, err
	}
	t := &Tree{
		out: w, limits: limits, meter: meter, layer: 1, facts: map[*erofs.Node]*facts{}, extended: map[*erofs.Node]bool{},
	}
	t.known(w.Root, w.Root, 0)
	return t, nil
}

// known adds the facts of directories that were read from a file.
func (t *Tree) known(dir, parent *erofs.Node, depth int) {
	t.facts[dir] = &facts{parent: parent, depth: depth}
	for _, child := range dir.Children {
		t.inodes++
		if child.IsDir() {
			t.known(child, dir, depth+1)
		}
	}
}

// Root returns the root directory. The caller must not change it.
func (t *Tree) Root() *erofs.Node { return t.out.Root }

// Content returns the content of a regular file.
func (t *Tree) Content(n *erofs.Node) *io.SectionReader { return t.out.Content(n) }

// File stores the content of a regular file that Mount shows.
func (t *Tree) File(attr erofs.Attr, content io.Reader) (*erofs.Node, error) {
	return t.out.File(attr, content)
}

// Mount shows a file or a directory at a path in the place of what is there, until unmount. Nothing but Finish may be
// called in between. It follows symbolic links.
func (t *Tree) Mount(path string, node *erofs.Node) (unmount func(), err error) {
	name, err := erofs.Canonical(t.out.Root, path)
	if err != nil || name == "" {
		return nil, refused(path, "nothing can be mounted there")
	}
	at, parts := t.out.Root, strings.Split(name, "/")
	for len(parts) > 1 && at.Child(parts[0]) != nil {
		at, parts = at.Child(parts[0]), parts[1:]
	}
	if !at.IsDir() {
		return nil, refused(path, "nothing can be mounted there")
	}
	// The missing directories are part of the mount.
	for i := len(parts) - 1; i > 0; i-- {
		dir := erofs.NewNode(erofs.Attr{Mode: erofs.TypeDir | 0o755})
		if err := dir.Add(parts[i], node); err != nil {
			return nil, err
		}
		node = dir
	}
	old := at.Swap(parts[0], node)
	return func() {
		at.Swap(parts[0], old)
		t.out.Free(node)
	}, nil
}

// Finish completes the file. It does not wait for the disk. Apply may be called after it, and then Finish again.
func (t *Tree) Finish(id [16]byte) error { return t.out.Finish(id) }

// Apply applies the next layer, a tar archive. KindUsage: the archive is damaged or hostile, and the subject is the
// entry. KindExhausted: the archive exceeds a limit. After an error the tree is unusable.
func (t *Tree) Apply(ctx context.Context, archive io.Reader) error {
	t.layer++
	reader := tar.NewReader(archive)
	last := ""
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged(last, err)
		}
		last = header.Name
		if err := t.entry(header, reader); err != nil {
			return err
		}
	}
}

// damaged returns the error for an archive that cannot be read after the entry last. It keeps the kind of err, and
// errors of the host.
func damaged(last string, err error) error {
	var known *core.Error
	var host *fs.PathError
	switch {
	case errors.As(err, &known):
		named := *known
		named.Subject = last
		return &named
	case errors.As(err, &host) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return refused("", "the layer is damaged after the entry %q: %w", last, err)
}

// entry applies one entry.
func (t *Tree) entry(header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if t.headers++; t.headers > t.limits.Headers {
		return tooMuch(header.Name, "the layers have more than %d entries", t.limits.Headers)
	}
	if err := t.named(header.Name, len(header.Name)+len(header.Linkname)); err != nil {
		return err
	}
	parts, err := split(header.Name)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		if header.Typeflag != tar.TypeDir {
			return refused(header.Name, "the entry is named like the root directory and is not a directory")
		}
		attr, err := attributes(header)
		if err == nil {
			t.out.Root.Set(attr)
			t.note(t.out.Root, header)
		}
		return err
	}
	name := parts[len(parts)-1]
	dir, err := t.directory(header.Name, parts[:len(parts)-1])
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, whiteout) {
		return t.hide(dir, name, header.Name)
	}
	return t.place(dir, name, header, content)
}

// named counts the bytes of names.
func (t *Tree) named(entry string, n int) error {
	if t.names += int64(n); t.names > t.limits.Names {
		return tooMuch(entry, "the layers have more than %s of names", core.Bytes(t.limits.Names))
	}
	return nil
}

// split returns the elements of an entry's name. An absolute name is relative to the image's root.
func split(name string) (parts []string, err error) {
	if len(name) > maxPath {
		return nil, refused(name[:maxName]+"…", "the name of the entry is longer than %d bytes", maxPath)
	}
	if strings.ContainsRune(name, 0) {
		return nil, refused(name, "the name of the entry has a zero byte")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return nil, refused(name, "the name of the entry leads out of a directory with %q", "..")
		case len(part) > maxName:
			return nil, refused(name, "a part of the entry's name is longer than %d bytes", maxName)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// directory returns the directory of a path, and makes missing parts of it. It follows symbolic links inside the image,
// as programs inside would. Images need that: a lower layer may make /lib a link to /usr/lib, and a higher one add
// /lib/….
func (t *Tree) directory(entry string, parts []string) (*erofs.Node, error) {
	at, links := t.out.Root, 0
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			at = t.facts[at].parent
			continue
		}
		next := at.Child(part)
		if next == nil {
			if err := t.count(entry); err != nil {
				return nil, err
			}
			made := erofs.NewNode(erofs.Attr{Mode: erofs.TypeDir | 0o755})
			if err := t.add(at, part, made, entry); err != nil {
				return nil, err
			}
			next = made
		}
		target, isLink := next.Target()
		switch {
		case next.IsDir():
			at = next
		case !isLink:
			return nil, refused(entry, "the entry is below %q, which is not a directory", part)
		default:
			if links++; links > maxLinks {
				return nil, refused(entry, "the entry leads through more than %d symbolic links", maxLinks)
			}
			// Long targets cost as much time as long names.
			if err := t.named(entry, len(target)); err != nil {
				return nil, err
			}
			if strings.HasPrefix(target, "/") {
				at = t.out.Root
			}
			parts = append(strings.Split(target, "/"), parts...)
		}
	}
	return at, nil
}

// add adds a node to a directory that has no entry of that name.
func (t *Tree) add(dir *erofs.Node, name string, node *erofs.Node, entry string) error {
	if len(name) > maxName {
		return refused(entry, "a part of the entry's path is longer than %d bytes", maxName)
	}
	inDir := t.facts[dir]
	if node.IsDir() {
		if inDir.depth >= maxDepth {
			return refused(entry, "the entry lies in more than %d directories", maxDepth)
		}
		t.facts[node] = &facts{parent: dir, depth: inDir.depth + 1}
	}
	if err := dir.Add(name, node); err != nil {
		return err
	}
	t.mark(inDir, name)
	return nil
}

// mark records that an entry belongs to the current layer.
func (t *Tree) mark(dir *facts, name string) {
	if t.layer == 1 {
		return
	}
	if dir.from == nil {
		dir.from = map[string]int32{}
	}
	dir.from[name] = t.layer
}

// count counts a new inode.
func (t *Tree) count(entry string) error {
	if t.inodes++; t.inodes > t.limits.Inodes {
		return tooMuch(entry, "the image has more than %d files", t.limits.Inodes)
	}
	return nil
}

// remove removes an entry with all below it.
func (t *Tree) remove(dir *erofs.Node, name string) {
	child := dir.Child(name)
	if child == nil {
		return
	}
	t.forget(child)
	delete(t.facts[dir].from, name)
	t.inodes -= t.out.Remove(dir, name)
}

// forget forgets the facts of a directory and of those below it.
func (t *Tree) forget(n *erofs.Node) {
	if !n.IsDir() {
		return
	}
	for _, child := range n.Children {
		t.forget(child)
	}
	delete(t.facts, n)
}

// hide applies a whiteout. It hides entries of lower layers, and never those of the current layer, in any order.
func (t *Tree) hide(dir *erofs.Node, name, entry string) error {
	switch hidden := strings.TrimPrefix(name, whiteout); {
	case strings.HasPrefix(name, reserved) && name != opaque:
	case hidden == "" || hidden == "." || hidden == "..":
		return refused(entry, "the whiteout names no file")
	case t.layer == 1:
		// There is nothing below it.
	case name == opaque:
		t.hideAll(dir)
	default:
		t.hideOne(dir, hidden)
	}
	return nil
}

// hideAll hides the entries of lower layers in a directory, at most once in each layer.
func (t *Tree) hideAll(dir *erofs.Node) {
	if t.facts[dir].opaque == t.layer {
		return
	}
	t.facts[dir].opaque = t.layer
	for name := range dir.Children {
		t.hideOne(dir, name)
	}
}

// hideOne hides an entry of lower layers. A directory that contains entries of this layer stays and keeps them.
func (t *Tree) hideOne(dir *erofs.Node, name string) {
	child := dir.Child(name)
	if child == nil {
		return
	}
	ours := t.facts[dir].from[name] == t.layer
	if child.IsDir() {
		t.hideAll(child)
		for range child.Children {
			ours = true
			break
		}
	}
	if !ours {
		t.remove(dir, name)
	}
}

// place applies an entry that is not a whiteout.
func (t *Tree) place(dir *erofs.Node, name string, header *tar.Header, content io.Reader) error {
	there := dir.Child(name)
	if header.Typeflag == tar.TypeLink {
		return t.link(dir, name, header)
	}
	attr, err := attributes(header)
	if err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir && there != nil && there.IsDir() {
		there.Set(attr)
		t.note(there, header)
		t.mark(t.facts[dir], name)
		return nil
	}
	t.remove(dir, name)
	if err := t.count(header.Name); err != nil {
		return err
	}
	node := erofs.NewNode(attr)
	if attr.Mode&erofs.TypeMask == erofs.TypeFile {
		if node, err = t.file(attr, header, content); err != nil {
			return err
		}
	}
	t.note(node, header)
	return t.add(dir, name, node, header.Name)
}

// file stores the content of a regular file.
func (t *Tree) file(attr erofs.Attr, header *tar.Header, content io.Reader) (*erofs.Node, error) {
	counted := &counter{from: t.meter.content(content)}
	node, err := t.out.File(attr, counted)
	if err != nil {
		return nil, damaged(header.Name, err)
	}
	if counted.n != header.Size {
		return nil, refused(header.Name, "the entry has %d bytes instead of %d", counted.n, header.Size)
	}
	return node, nil
}

// counter counts the bytes that are read.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// link applies a hard link.
func (t *Tree) link(dir *erofs.Node, name string, header *tar.Header) error {
	parts, err := split(header.Linkname)
	if err != nil || len(parts) == 0 {
		return refused(header.Name, "the entry is a hard link to %q, which is not a file of the image", header.Linkname)
	}
	target, err := t.find(header.Name, parts)
	if err != nil {
		return err
	}
	if target == nil || target.IsDir() {
		return refused(header.Name, "the entry is a hard link to %q, which is not a file of the image", header.Linkname)
	}
	if dir.Child(name) == target {
		t.mark(t.facts[dir], name)
		return nil
	}
	t.remove(dir, name)
	if !target.Linked() {
		return refused(header.Name, "the entry is a hard link to %q, which it replaces", header.Linkname)
	}
	return t.add(dir, name, target, header.Name)
}

// find returns a file of the image, or nil. It follows symbolic links except for the last element.
func (t *Tree) find(entry string, parts []string) (*erofs.Node, error) {
	dir, err := t.directory(entry, parts[:len(parts)-1])
	if err != nil {
		return nil, err
	}
	return dir.Child(parts[len(parts)-1]), nil
}

// attributes returns the attributes of an entry that is not a hard link.
func attributes(header *tar.Header) (erofs.Attr, error) {
	attr := erofs.Attr{ModTime: header.ModTime}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		attr.Mode = erofs.TypeFile
	case tar.TypeDir:
		attr.Mode = erofs.TypeDir
	case tar.TypeSymlink:
		attr.Mode, attr.Target = erofs.TypeLink, header.Linkname
		if attr.Target == "" || len(attr.Target) > maxPath {
			return attr, refused(header.Name, "the symbolic link has a target of %d bytes", len(attr.Target))
		}
	case tar.TypeChar, tar.TypeBlock:
		attr.Mode = erofs.TypeChar
		if header.Typeflag == tar.TypeBlock {
			attr.Mode = erofs.TypeBlock
		}
		if header.Devmajor < 0 || header.Devmajor > erofs.MaxMajor || header.Devminor < 0 ||
			header.Devminor > erofs.MaxMinor {
			return attr, refused(header.Name, "there is no device %d:%d", header.Devmajor, header.Devminor)
		}
		attr.Major, attr.Minor = uint32(header.Devmajor), uint32(header.Devminor)
	case tar.TypeFifo:
		attr.Mode = erofs.TypeFIFO
	default:
		return attr, refused(header.Name, "the entry has the unknown type %q", header.Typeflag)
	}
	if header.Uid < 0 || header.Uid >= math.MaxUint32 || header.Gid < 0 || header.Gid >= math.MaxUint32 {
		return attr, refused(header.Name, "there is no owner %d:%d", header.Uid, header.Gid)
	}
	attr.Mode |= uint16(header.Mode & 0o7777)
	attr.UID, attr.GID = uint32(header.Uid), uint32(header.Gid)
	return attr, nil
}
