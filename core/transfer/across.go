package transfer

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// across copies from one sandbox to another, or within one.
func (c *copier) across() (err error) {
	name, base, content := source(c.From.Path)
	info, err := c.Stat(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	if content {
		if name, info, err = c.followed(name, info); err != nil {
			return err
		}
	}
	if !info.Mode.IsDir() {
		return c.acrossFile(name, info, base)
	}
	target, exists, err := c.target(c.To, base, true, content)
	if err != nil {
		return err
	}
	if err := c.checkOutside(info.Path, target); err != nil {
		return err
	}
	ignored, err := c.ignoredInside(name)
	if err != nil {
		return err
	}
	archive, err := c.Export(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	if !exists {
		if err := c.Mkdir(c.ctx, c.To.Sandbox, target, false); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.rollBack(target))
			}
		}()
	}
	return c.stream(func(w *tar.Writer) error {
		return c.repack(bufio.NewReaderSize(archive, copyBuffer), name, ".", ignored, w)
	}, target)
}

// checkOutside refuses a target in the copied directory, where the copy would copy itself.
func (c *copier) checkOutside(from, target string) error {
	if c.From.Sandbox != c.To.Sandbox {
		return nil
	}
	if !path.IsAbs(target) {
		parent, err := c.Stat(c.ctx, c.To.Sandbox, path.Dir(target))
		if err != nil {
			return err
		}
		target = path.Join(parent.Path, path.Base(target))
	}
	if target = path.Clean(target); target == from || strings.HasPrefix(target, strings.TrimSuffix(from, "/")+"/") {
		return core.Errorf(core.KindUsage, "copy", c.To.String(), "it is in the directory that is copied")
	}
	return nil
}

func (c *copier) acrossFile(name string, info core.FileInfo, base string) (err error) {
	target, _, err := c.target(c.To, base, false, false)
	if err != nil {
		return err
	}
	content, err := c.ReadFile(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	c.total, c.result.Files = info.Size, 1
	mode := info.Mode.Perm()
	if info.Mode&fs.ModeSymlink != 0 {
		mode = 0
	}
	if mode != 0 && info.Mode&specialBits != 0 {
		c.notices.add(noticeBits, base)
	}
	return c.WriteFile(c.ctx, c.To.Sandbox, target, counted{c, content}, core.WriteOptions{Mode: mode})
}

// repack copies the archive of a sandbox, with names below prefix. from is the tree's path in the sandbox.
func (c *copier) repack(archive io.Reader, from, prefix string, ignored *ignore, w *tar.Writer) error {
	heirs := heirs{}
	leftOut := func(name string) bool { return ignored.excluded(name, false) }
	return c.entries(archive, func(r *tar.Reader, header *tar.Header) error {
		if ignored.excluded(header.Name, header.Typeflag == tar.TypeDir) {
			return nil
		}
		content, err := c.contentOf(r, header, from, leftOut, heirs)
		if err != nil {
			return err
		}
		return errors.Join(c.repackEntry(content, header, prefix, w), content.Close())
	})
}

// repackEntry writes one entry whose names are paths in the tree.
func (c *copier) repackEntry(content io.Reader, header *tar.Header, prefix string, w *tar.Writer) (err error) {
	name := path.Join(prefix, header.Name) //nolint:gosec // localName keeps it inside
	switch header.Typeflag {
	case tar.TypeDir:
		name += "/"
	case tar.TypeLink:
		header.Linkname = path.Join(prefix, header.Linkname) //nolint:gosec // localName keeps it inside
	case tar.TypeReg, tar.TypeSymlink, tar.TypeFifo:
	default:
		c.notFile(header)
		return nil
	}
	header.Name, header.Format = name, tar.FormatPAX
	c.result.Files++
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.CopyN(w, counted{c, content}, header.Size)
	if errors.Is(err, io.EOF) {
		return core.Errorf(core.KindConflict, "copy", header.Name, "it shrank to %d bytes while it was copied", n)
	}
	return err
}
