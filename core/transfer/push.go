package transfer

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/origin"
)

// push copies from this machine into a sandbox.
func (c *copier) push() (err error) {
	name, _, _ := source(filepath.ToSlash(c.From.Path))
	content := strings.HasSuffix(c.From.Path, "/") || strings.HasSuffix(c.From.Path, "/.") || c.From.Path == "."
	info, err := c.host().Stat(c.From.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindNotFound, "copy", c.From.Path, "there is no %s on this machine", c.From.Path)
	}
	if err != nil {
		return err
	}
	base := filepath.Base(name)
	if c.Root != nil && base == "." {
		base = filepath.Base(c.Root.Name())
	} else if absolute, absErr := filepath.Abs(name); absErr == nil {
		base = filepath.Base(absolute)
	}
	if !info.IsDir() {
		return c.pushFile(info, base)
	}
	root, err := c.host().OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	entries, err := c.survey(root)
	if err != nil {
		return err
	}
	target, exists, err := c.target(c.To, base, true, content)
	if err != nil {
		return err
	}
	into, prefix := target, "."
	if !exists {
		// The archive creates the target. That is faster, and a failed copy can roll it back.
		target = path.Clean(target)
		into, prefix = path.Dir(target), path.Base(target)
		defer func() {
			if err != nil {
				err = errors.Join(err, c.rollBack(target))
			}
		}()
	}
	first := map[inode]string{}
	c.pushed = map[string]origin.File{}
	err = c.stream(func(w *tar.Writer) error {
		at := nearest{root: root}
		for _, e := range entries {
			if err := c.writeEntry(w, &at, e, prefix, first); err != nil {
				return errors.Join(err, at.close())
			}
		}
		return at.close()
	}, into)
	if err == nil {
		c.record(root.Name(), target, false)
	}
	return err
}

// originRecorder is the part of service.Files that records pushes.
type originRecorder interface {
	RecordOrigin(ctx context.Context, ref string, o origin.Origin) error
}

// record records what was pushed, so that Review can compare it. A push without a record is still a push.
func (c *copier) record(source, target string, selected bool) {
	recorder, can := c.Files.(originRecorder)
	if !can || len(c.pushed) == 0 || len(c.pushed) > origin.MaxFiles {
		return
	}
	o := origin.Origin{
		Recorded: time.Now().UTC(), Exclude: c.Exclude, GitIgnore: c.GitIgnore, Files: c.pushed, Selected: selected,
	}
	var err error
	if o.Target = path.Clean(target); !path.IsAbs(target) {
		var info core.FileInfo
		info, err = c.Stat(c.ctx, c.To.Sandbox, target)
		o.Target = info.Path
	}
	if err == nil {
		o.Source, err = filepath.Abs(source)
	}
	if err == nil {
		o.Source, err = filepath.EvalSymlinks(o.Source)
	}
	if err == nil {
		err = recorder.RecordOrigin(c.ctx, c.To.Sandbox, o)
	}
	if err != nil {
		c.notices.add(noticeOrigin, target)
	}
}

// hostFiles opens the pushed files: anywhere on this machine, or below Request.Root.
type hostFiles interface {
	Stat(name string) (fs.FileInfo, error)
	Open(name string) (*os.File, error)
	OpenRoot(name string) (*os.Root, error)
}

func (c *copier) host() hostFiles {
	if c.Root != nil {
		return c.Root
	}
	return anywhere{}
}

type anywhere struct{}

func (anywhere) Stat(name string) (fs.FileInfo, error)  { return os.Stat(name) }
func (anywhere) Open(name string) (*os.File, error)     { return os.Open(name) }
func (anywhere) OpenRoot(name string) (*os.Root, error) { return os.OpenRoot(name) }

// rollBackTimeout bounds the removal of a partial target.
const rollBackTimeout = 30 * time.Second

// rollBack removes the partial target of this copy, even after a cancellation.
func (c *copier) rollBack(target string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), rollBackTimeout)
	defer cancel()
	err := c.Remove(ctx, c.To.Sandbox, target, true)
	if errors.Is(err, core.KindNotFound) {
		return nil
	}
	return err
}

// stream packs an archive and unpacks it in the sandbox at the same time.
func (c *copier) stream(pack func(*tar.Writer) error, target string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		buffered := bufio.NewWriterSize(w, copyBuffer)
		archive := tar.NewWriter(buffered)
		err := pack(archive)
		if err == nil {
			err = errors.Join(archive.Close(), buffered.Flush())
		}
		_ = w.CloseWithError(err)
		packed <- err
	}()
	err := c.Import(c.ctx, c.To.Sandbox, target, r, core.ImportOptions{})
	// If the import failed first, the packing must not wait for a reader.
	_ = r.CloseWithError(errImportEnded)
	if packErr := <-packed; packErr != nil && !errors.Is(packErr, errImportEnded) {
		return packErr
	}
	return err
}

var errImportEnded = errors.New("the import has ended")

func (c *copier) pushFile(info fs.FileInfo, base string) (err error) {
	if !info.Mode().IsRegular() {
		return core.Errorf(core.KindUsage, "copy", c.From.Path, "it is neither a file nor a directory")
	}
	f, err := c.host().Open(c.From.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	c.total, c.result.Files = info.Size(), 1
	if info.Mode()&specialBits != 0 {
		c.notices.add(noticeBits, base)
	}
	target, sum, err := c.sendFile(f, info, base)
	if err == nil && path.Base(path.Clean(target)) == filepath.Base(f.Name()) {
		file := origin.FileOf(info)
		file.Sum = sum
		c.pushed = map[string]origin.File{filepath.Base(f.Name()): file}
		c.record(filepath.Dir(f.Name()), path.Dir(path.Clean(target)), true)
	}
	return err
}

// sendFile writes a file to the target of the request, and returns the target and the SHA-256 of the content.
//
// A target with the file's own name is seldom a directory. So it is written without a look at it, which takes as long
// as the write of a small file. Providers refuse to write to a directory, and change nothing then.
func (c *copier) sendFile(f *os.File, info fs.FileInfo, base string) (target, sum string, err error) {
	var refused error
	if path.Base(c.To.Path) == base && !strings.HasSuffix(c.To.Path, "/") {
		sum, refused = c.sendTo(c.To.Path, f, info)
		if refused == nil || c.ctx.Err() != nil {
			return c.To.Path, sum, refused
		}
	}
	target, _, err = c.target(c.To, base, false, false)
	if refused != nil {
		if target == c.To.Path || err != nil && !errors.Is(err, core.KindConflict) {
			return "", "", refused // it is no directory
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return "", "", err
		}
		c.result.Bytes = 0
	}
	if err != nil {
		return "", "", err
	}
	sum, err = c.sendTo(target, f, info)
	return target, sum, err
}

func (c *copier) sendTo(target string, f *os.File, info fs.FileInfo) (sum string, err error) {
	hash := sha256.New()
	content := io.TeeReader(counted{c, f}, hash)
	err = c.WriteFile(c.ctx, c.To.Sandbox, target, content, core.WriteOptions{Mode: info.Mode().Perm()})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// entry is one file of a tree to copy.
type entry struct {
	name string // in the tree, slash separated
	info fs.FileInfo
	link string
}

// survey lists the files to copy and refuses those that cannot be copied, before any write.
func (c *copier) survey(root *os.Root) ([]entry, error) {
	var entries []entry
	tree := root.FS()
	ignored := newIgnore(c.Exclude, c.GitIgnore)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if ignored.match(name, d.IsDir()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() && c.GitIgnore {
			if err := ignored.addFile(tree, name); err != nil {
				return err
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{name: name, info: info}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if e.link, err = root.Readlink(name); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			c.total += info.Size()
		case !info.IsDir() && info.Mode()&fs.ModeNamedPipe == 0:
			c.notices.add(noticeKind, name) // sockets and devices are not copied
			return nil
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// writeEntry adds one file of a tree to the archive, below prefix. first has the files with several names, by inode,
// with the name that was written.
func (c *copier) writeEntry(w *tar.Writer, at *nearest, e entry, prefix string, first map[inode]string) (err error) {
	header, err := tar.FileInfoHeader(e.info, e.link)
	if err != nil {
		return err
	}
	header.Name, header.Format = path.Join(prefix, e.name), tar.FormatPAX
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	if e.info.IsDir() {
		header.Name += "/"
	}
	c.result.Files++
	if header.Typeflag == tar.TypeSymlink {
		header.Linkname = filepath.ToSlash(e.link)
	}
	file := origin.FileOf(e.info)
	file.Link = e.link
	if !e.info.Mode().IsRegular() {
		c.pushed[e.name] = file
		return w.WriteHeader(header)
	}
	dir, base, err := at.in(e.name)
	if err != nil {
		return err
	}
	f, err := dir.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe put in its place must not block
	if err != nil {
		return named(err, e.name)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if id, several := inodeOf(now); several {
		if name, known := first[id]; known {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, name, 0
			file.Sum = c.pushed[strings.TrimPrefix(strings.TrimPrefix(name, prefix), "/")].Sum
			c.pushed[e.name] = file
			return w.WriteHeader(header)
		}
		first[id] = header.Name
	}
	header.Size = now.Size()
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.CopyN(io.MultiWriter(w, sum), counted{c, f}, header.Size)
	if err == nil {
		file = origin.FileOf(now)
		file.Sum = hex.EncodeToString(sum.Sum(nil))
		c.pushed[e.name] = file
	}
	if errors.Is(err, io.EOF) {
		return core.Errorf(core.KindConflict, "copy", e.name, "it shrank to %d bytes while it was copied", n)
	}
	return err
}
