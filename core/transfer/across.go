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
	name, content := source(c.From.Path)
	info, err := c.Stat(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	if content {
		if info, err = c.followed(info); err != nil {
			return err
		}
	}
	base := path.Base(info.Path)
	if !info.Mode.IsDir() {
		return c.acrossFile(info, base)
	}
	target, exists, err := c.target(c.To, base, true, content)
	if err != nil {
		return err
	}
	if err := c.checkOutside(info.Path, target); err != nil {
		return err
	}
	archive, err := c.Export(c.ctx, c.From.Sandbox, info.Path)
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
	return c.stream(func(w *tar.Writer) error { return c.repack(bufio.NewReaderSize(archive, copyBuffer), info.Path, w) }, target)
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

func (c *copier) acrossFile(info core.FileInfo, base string) (err error) {
	target, _, err := c.target(c.To, base, false, false)
	if err != nil {
		return err
	}
	content, err := c.ReadFile(c.ctx, c.From.Sandbox, info.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	c.total, c.result.Files = info.Size, 1
	mode := info.Mode.Perm()
	if info.Mode&fs.ModeSymlink != 0 {
		mode = 0
	}
	return c.WriteFile(c.ctx, c.To.Sandbox, target, counted{c, content}, core.WriteOptions{Mode: mode})
}

// repack takes the first element off an archive's names. from is the tree's path in the sandbox.
func (c *copier) repack(archive io.Reader, from string, w *tar.Writer) error {
	ignored, linked, heirs := newIgnore(c.Exclude), links{}, heirs{}
	r := tar.NewReader(archive)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, archive)
			return err
		}
		if err != nil {
			return err
		}
		name, err := localName(header.Name)
		if err != nil {
			return err
		}
		if excluded(ignored, name, header.Typeflag == tar.TypeDir) {
			continue
		}
		if err := linked.check(name); err != nil {
			return err
		}
		header.Name = name
		content, err := c.contentOf(r, header, from, ignored, heirs)
		if err != nil {
			return err
		}
		if err := errors.Join(c.repackEntry(content, header, w, linked), content.Close()); err != nil {
			return err
		}
	}
}

// repackEntry writes one entry whose name is a path in the tree.
func (c *copier) repackEntry(content io.Reader, header *tar.Header, w *tar.Writer, linked links) (err error) {
	name := header.Name
	switch header.Typeflag {
	case tar.TypeDir:
		name += "/"
	case tar.TypeLink:
		if header.Linkname, err = localName(header.Linkname); err != nil {
			return err
		}
		if err := linked.checkHard(name, header.Linkname); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if err := checkLink(name, header.Linkname); err != nil {
			return err
		}
		linked[name] = true
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
