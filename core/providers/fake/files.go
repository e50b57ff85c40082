package fake

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/seed-0724f904/sb/core"
)

// files starts an operation on the files of a running sandbox.
func (p *Provider) files(ctx context.Context, op Op, id string) (*box, error) {
	if err := p.faults.meet(ctx, op); err != nil {
		return nil, err
	}
	b, err := p.box(id)
	if err != nil {
		return nil, err
	}
	return b, b.ready()
}

// fileError adds a kind to an error.
func fileError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	kind := core.KindOf(err)
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		switch number {
		case syscall.EISDIR, syscall.ENOTDIR, syscall.ENOTEMPTY, syscall.EEXIST, syscall.ELOOP, syscall.EBUSY:
			kind = core.KindConflict
		case syscall.ENOSPC:
			kind = core.KindExhausted
		}
	}
	return &core.Error{Kind: kind, Op: "fake." + op, Subject: name, Err: err}
}

func fileInfo(name string, n node) core.FileInfo {
	return core.FileInfo{
		Path: name, Size: n.size(), Mode: n.mode, ModTime: n.modTime, UID: n.uid, GID: n.gid, Link: n.link,
	}
}

// Stat implements core.FileSystem.
func (p *Provider) Stat(ctx context.Context, id, name string) (core.FileInfo, error) {
	b, err := p.files(ctx, OpRead, id)
	if err != nil {
		return core.FileInfo{}, err
	}
	n, err := b.tree.stat(name, false)
	return fileInfo(name, n), fileError("stat", name, err)
}

// ReadDir implements core.FileSystem.
func (p *Provider) ReadDir(ctx context.Context, id, name string) ([]core.FileInfo, error) {
	b, err := p.files(ctx, OpRead, id)
	if err != nil {
		return nil, err
	}
	names, err := b.tree.list(name)
	if err != nil {
		return nil, fileError("readdir", name, err)
	}
	infos := make([]core.FileInfo, 0, len(names))
	for _, base := range names {
		child := path.Join(name, base)
		if n, err := b.tree.stat(child, false); err == nil {
			infos = append(infos, fileInfo(child, n))
		}
	}
	return infos, nil
}

// ReadFile implements core.FileSystem.
func (p *Provider) ReadFile(ctx context.Context, id, name string) (io.ReadCloser, error) {
	b, err := p.files(ctx, OpRead, id)
	if err != nil {
		return nil, err
	}
	data, err := b.tree.read(name)
	if err != nil {
		return nil, fileError("read", name, err)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// WriteFile implements core.FileSystem.
func (p *Provider) WriteFile(ctx context.Context, id, name string, content io.Reader, opts core.WriteOptions) error {
	b, err := p.files(ctx, OpWrite, id)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(until{ctx, content})
	if err != nil {
		return fileError("write", name, err)
	}
	if err := ctx.Err(); err != nil {
		return fileError("write", name, err)
	}
	if opts.Parents {
		if err := b.tree.mkdir(path.Dir(name), true, b.uid()); err != nil {
			return fileError("write", name, err)
		}
	}
	if opts.Append {
		_, err = b.tree.appendTo(name, data, opts.Mode, b.uid())
	} else {
		err = b.tree.replace(name, data, opts.Mode, b.uid())
	}
	return fileError("write", name, err)
}

// until is a reader that fails when a context ends, even while a read blocks. That read continues until it returns.
type until struct {
	ctx context.Context //nolint:containedctx // io.Reader takes no context
	r   io.Reader
}

func (u until) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done, buf := make(chan result, 1), make([]byte, len(p))
	go func() {
		n, err := u.r.Read(buf)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, buf[:r.n]), r.err
	case <-u.ctx.Done():
		return 0, u.ctx.Err()
	}
}

// Mkdir implements core.FileSystem.
func (p *Provider) Mkdir(ctx context.Context, id, name string, parents bool) error {
	b, err := p.files(ctx, OpWrite, id)
	if err != nil {
		return err
	}
	return fileError("mkdir", name, b.tree.mkdir(name, parents, b.uid()))
}

// Remove implements core.FileSystem.
func (p *Provider) Remove(ctx context.Context, id, name string, recursive bool) error {
	b, err := p.files(ctx, OpWrite, id)
	if err != nil {
		return err
	}
	return fileError("remove", name, b.tree.remove(name, recursive))
}

// uid returns the number of the sandbox's user.
func (b *box) uid() int {
	uid, err := userID("", b.get().Spec.User)
	if err != nil {
		return 0
	}
	return uid
}

// Export implements core.FileSystem.
func (p *Provider) Export(ctx context.Context, id, name string) (io.ReadCloser, error) {
	b, err := p.files(ctx, OpRead, id)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	base := path.Base(name)
	if name == "/" {
		base = "."
	}
	if err := errors.Join(b.tree.export(w, name, base), w.Close()); err != nil {
		return nil, fileError("export", name, err)
	}
	return io.NopCloser(&archive), nil
}

// export writes the tree at a path under another name.
func (t *tree) export(w *tar.Writer, name, as string) error {
	n, err := t.stat(name, false)
	if err != nil {
		return err
	}
	header := &tar.Header{
		Name: as, Mode: int64(n.mode.Perm()), Uid: n.uid, Gid: n.gid, ModTime: n.modTime, Format: tar.FormatPAX,
	}
	switch {
	case n.children != nil:
		header.Typeflag, header.Name = tar.TypeDir, as+"/"
	case n.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, n.link
	default:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(n.data))
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeReg {
		_, err := w.Write(n.data)
		return err
	}
	if n.children == nil {
		return nil
	}
	names, err := t.list(name)
	if err != nil {
		return err
	}
	for _, child := range names {
		if err := t.export(w, path.Join(name, child), as+"/"+child); err != nil {
			return err
		}
	}
	return nil
}

// Import implements core.FileSystem.
func (p *Provider) Import(ctx context.Context, id, dir string, archive io.Reader, opts core.ImportOptions) error {
	b, err := p.files(ctx, OpWrite, id)
	if err != nil {
		return err
	}
	if n, err := b.tree.stat(dir, true); err != nil {
		return fileError("import", dir, err)
	} else if n.children == nil {
		return fileError("import", dir, syscall.ENOTDIR)
	}
	root, err := b.tree.real(dir)
	if err != nil {
		return fileError("import", dir, err)
	}
	for r := tar.NewReader(until{ctx, archive}); ; {
		if err := ctx.Err(); err != nil {
			return fileError("import", dir, err)
		}
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fileError("import", dir, err)
		}
		if err := b.unpack(root, header, r, opts); err != nil {
			return fileError("import", header.Name, err)
		}
	}
}

// within reports whether a clean absolute path is root or below it.
func within(root, name string) bool {
	return name == root || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
}

func outside(name string) error {
	return core.Errorf(core.KindUsage, "fake.import", name, "the archive points outside the directory it is unpacked in")
}

// unpack creates one entry of an archive.
func (b *box) unpack(root string, header *tar.Header, content io.Reader, opts core.ImportOptions) error {
	name := path.Join(root, header.Name) //nolint:gosec // checked in the next line
	if path.IsAbs(header.Name) || !within(root, name) {
		return outside(header.Name)
	}
	// Existing links must not lead the entry out.
	parent := path.Dir(name)
	if name == root {
		parent = root
	}
	if err := b.tree.mkdir(parent, true, b.uid()); err != nil {
		return err
	}
	if led, err := b.tree.real(parent); err != nil {
		return err
	} else if !within(root, led) {
		return outside(header.Name)
	}
	mode := fs.FileMode(header.Mode).Perm() //nolint:gosec // Perm keeps nine bits
	switch header.Typeflag {
	case tar.TypeDir:
		_, err := b.tree.stat(name, true)
		if err == nil && !opts.DirectoryModes {
			return nil // it keeps its mode
		}
		if err := errors.Join(b.tree.mkdir(name, true, b.uid()), b.tree.chmod(name, mode)); err != nil {
			return err
		}
	case tar.TypeReg:
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if n, err := b.tree.stat(name, false); err == nil && n.link != "" {
			if err := b.tree.remove(name, false); err != nil {
				return err
			}
		}
		if err := b.tree.replace(name, data, mode, b.uid()); err != nil {
			return err
		}
	case tar.TypeSymlink, tar.TypeLink:
		if err := b.unpackLink(root, name, header); err != nil {
			return err
		}
	default:
		return core.Errorf(
			core.KindUnsupported, "fake.import", header.Name, "the archive contains a device or a socket",
		)
	}
	if opts.KeepOwner {
		b.tree.chown(name, header.Uid, header.Gid)
	}
	return nil
}

func (b *box) unpackLink(root, name string, header *tar.Header) error {
	target := path.Join(root, header.Linkname) //nolint:gosec // checked below
	if header.Typeflag == tar.TypeLink && !within(root, target) {
		return outside(header.Name)
	}
	if err := b.tree.remove(name, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if header.Typeflag == tar.TypeSymlink {
		return b.tree.symlink(header.Linkname, name, b.uid())
	}
	n, err := b.tree.stat(target, false)
	if err != nil {
		return err
	}
	return b.tree.replace(name, n.data, n.mode, b.uid())
}

// chown changes a file's owner if the file still exists.
func (t *tree) chown(name string, uid, gid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, err := t.get("chown", name, false); err == nil {
		n.uid, n.gid = uid, gid
	}
}

// size returns the bytes of all files.
func (t *tree) size() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}
