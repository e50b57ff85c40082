package layer

import (
	"archive/tar"
	"context"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

// Archive writes the file system in an EROFS file as one layer. The same file system always gives the same bytes.
func Archive(ctx context.Context, file *os.File, to io.Writer) error {
	root, err := erofs.Read(file)
	if err != nil {
		return err
	}
	a := &archiver{ctx: ctx, file: file, out: tar.NewWriter(to), names: map[*erofs.Node]string{}}
	if err := a.add("", root); err != nil {
		return err
	}
	return a.out.Close()
}

type archiver struct {
	ctx  context.Context //nolint:containedctx // the archiver ends with it
	file *os.File
	out  *tar.Writer
	// names has the first name of each file.
	names map[*erofs.Node]string
}

// add writes a file, and all below a directory in the order of the names.
func (a *archiver) add(name string, n *erofs.Node) error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	attr := n.Attr()
	header := &tar.Header{
		Name: name, Mode: int64(attr.Mode & 0o7777), Uid: int(attr.UID), Gid: int(attr.GID), ModTime: attr.ModTime,
		Linkname: attr.Target, Format: tar.FormatPAX,
	}
	first, linked := a.names[n]
	switch kind := attr.Mode & erofs.TypeMask; {
	case linked:
		header.Typeflag, header.Linkname = tar.TypeLink, first
	case n.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, "./"
		if name != "" {
			header.Name = name + "/"
		}
	case n.IsFile():
		header.Typeflag, header.Size = tar.TypeReg, n.Size()
	case kind == erofs.TypeLink:
		header.Typeflag = tar.TypeSymlink
	case kind == erofs.TypeFIFO:
		header.Typeflag = tar.TypeFifo
	case kind == erofs.TypeChar || kind == erofs.TypeBlock:
		header.Typeflag = tar.TypeChar
		if kind == erofs.TypeBlock {
			header.Typeflag = tar.TypeBlock
		}
		header.Devmajor, header.Devminor = int64(attr.Major), int64(attr.Minor)
	default:
		return nil // layers have no sockets
	}
	if err := a.out.WriteHeader(header); err != nil {
		return err
	}
	if n.IsDir() {
		return a.below(name, n)
	}
	a.names[n] = name
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(a.out, erofs.Content(a.file, n))
	return err
}

// below writes the entries of a directory.
func (a *archiver) below(name string, dir *erofs.Node) error {
	children := maps.Collect(dir.Children)
	for _, child := range slices.Sorted(maps.Keys(children)) {
		path := child
		if name != "" {
			path = name + "/" + child
		}
		if err := a.add(path, children[child]); err != nil {
			return err
		}
	}
	return nil
}
