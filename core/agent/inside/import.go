//go:build linux

package inside

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/internal/sparse"
)

// importArchive unpacks an archive into dir, which exists. Each file appears under its name at once, after all of its
// content has arrived. If the archive is damaged, refused or ends early, this import removes all files that it created.
// Files that it replaced are complete.
func importArchive(dir string, r io.Reader, how guest.Request, report *guest.Report) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	im := &importer{
		root: root, report: report, keepOwner: how.KeepOwner, directoryModes: how.DirectoryModes,
		created: map[string]bool{}, buf: make([]byte, copyBuffer), temp: tempName(),
	}
	defer im.closeDir()
	if err := im.run(r); err != nil {
		im.rollBack()
		return err
	}
	return nil
}

type importer struct {
	root      *os.Root
	report    *guest.Report
	keepOwner bool
	// directoryModes is core.ImportOptions.DirectoryModes.
	directoryModes bool
	buf            []byte
	temp           string

	// dir is the directory of the last entry. It stays open because the next entry is usually in the same directory.
	dir     *os.File
	dirName string

	replacer replacer

	// created has the directories that this import made. topmost has its files and directories in directories that existed
	// before.
	created map[string]bool
	topmost []string
	// dirs get their modes and times at the end, for filling them changes both.
	dirs []*tar.Header
}

// trailerReader records whether a read went beyond the end. A whole archive has a marked end, so its reader stops
// before.
type trailerReader struct {
	r      io.Reader
	broken bool
}

func (t *trailerReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.broken = t.broken || (n == 0 && errors.Is(err, io.EOF))
	return n, err
}

func (im *importer) run(r io.Reader) error {
	buffered := bufio.NewReaderSize(r, copyBuffer)
	trailer := &trailerReader{r: buffered}
	archive := tar.NewReader(trailer)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if trailer.broken {
				return core.Errorf(core.KindUsage, "", "", "the archive is incomplete: %w", io.ErrUnexpectedEOF)
			}
			break
		}
		if err != nil {
			return archiveError(err)
		}
		if err := im.entry(h, archive); err != nil {
			return err
		}
	}
	// The sender may still be writing padding and must not get SIGPIPE for it.
	if _, err := io.Copy(io.Discard, buffered); err != nil {
		return err
	}
	return im.finishDirs()
}

// archiveError distinguishes damage in the archive from failures of its stream.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return core.Errorf(core.KindUsage, "", "", "the archive is damaged: %w", err)
	}
	return err
}

func refused(name, why string) error {
	return core.Errorf(core.KindUsage, "", name, "the archive's entry is refused: %s", why)
}

// entryName returns a name that is clean and inside; "." is the directory itself.
func entryName(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", refused(name, "its name holds a NUL byte")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", refused(name, "it points outside")
		}
	}
	if path.IsAbs(name) {
		return "", refused(name, "its name is absolute")
	}
	return path.Clean(name), nil
}

func (im *importer) entry(h *tar.Header, content io.Reader) error {
	name, err := entryName(h.Name)
	if err != nil {
		return err
	}
	h.Name = name
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		return im.directory(h)
	case tar.TypeReg, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeGNUSparse, tar.TypeCont:
	default:
		im.report.Skip(name)
		return nil
	}
	if name == "." {
		return refused(h.Name, "it would replace the directory itself")
	}
	if err := im.open(path.Dir(name)); err != nil {
		return entryError(name, err)
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		err = im.symlink(h)
	case tar.TypeLink:
		err = im.hardLink(h)
	case tar.TypeFifo:
		err = im.pipe(h)
	default:
		err = im.file(h, content)
	}
	return entryError(name, err)
}

// entryError names the entry, unless the error does.
func entryError(name string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*core.Error](err); ok && e.Subject != "" {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = archiveError(err)
	}
	return core.Wrap("", name, &core.Error{Kind: guest.KindOf(err), Subject: name, Err: bare(err)})
}

func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// open makes dir the current directory. It creates dir and missing directories above it.
func (im *importer) open(dir string) error {
	if im.dir != nil && im.dirName == dir {
		return nil
	}
	f, err := im.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := im.makeDirs(dir); err != nil {
			return err
		}
		f, err = im.root.Open(dir)
	}
	if err != nil {
		return im.escape(dir, err)
	}
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		_ = f.Close()
		return errors.Join(err, unix.ENOTDIR)
	}
	im.closeDir()
	im.dir, im.dirName = f, dir
	return nil
}

// escape distinguishes a path that leads outside from other failures.
func (im *importer) escape(name string, err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return err
	}
	// os.Root's own refusal is the one failure without a number.
	return refused(name, "it points outside")
}

func (im *importer) closeDir() {
	if im.dir != nil {
		_ = im.dir.Close()
		im.dir = nil
	}
}

func (im *importer) makeDirs(dir string) error {
	made := ""
	for part := range strings.SplitSeq(dir, "/") {
		made = path.Join(made, part)
		err := im.root.Mkdir(made, defaultDirMode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return im.escape(made, err)
		}
		im.note(made)
		im.created[made] = true
	}
	return nil
}

// note records a created file or directory for rollBack.
func (im *importer) note(name string) {
	if !im.created[path.Dir(name)] {
		im.topmost = append(im.topmost, name)
	}
}

func (im *importer) rollBack() {
	im.closeDir()
	for _, name := range slices.Backward(im.topmost) {
		// A failed removal is ignored: the error that led here is the one to report.
		_ = im.root.RemoveAll(name)
	}
}

func (im *importer) directory(h *tar.Header) error {
	if h.Name != "." {
		if err := im.open(path.Dir(h.Name)); err != nil {
			return entryError(h.Name, err)
		}
		err := unix.Mkdirat(im.fd(), path.Base(h.Name), defaultDirMode)
		switch err {
		case nil:
			im.note(h.Name)
			im.created[h.Name] = true
		case unix.EEXIST:
			info, err := im.root.Stat(h.Name)
			if err != nil {
				return entryError(h.Name, im.escape(h.Name, err))
			}
			if !info.IsDir() {
				return entryError(h.Name, unix.ENOTDIR)
			}
		default:
			return entryError(h.Name, err)
		}
	}
	im.dirs = append(im.dirs, h)
	return nil
}

func (im *importer) fd() int { return int(im.dir.Fd()) }

func (im *importer) finishDirs() error {
	im.closeDir()
	for _, h := range slices.Backward(im.dirs) {
		if h.Name == "." || !im.created[h.Name] && (!im.directoryModes || im.fits(h)) {
			continue // it existed before and keeps its attributes
		}
		if im.keepOwner {
			if err := im.root.Lchown(h.Name, h.Uid, h.Gid); err != nil {
				return entryError(h.Name, err)
			}
		}
		if err := im.root.Chmod(h.Name, h.FileInfo().Mode()); err != nil {
			return entryError(h.Name, err)
		}
		if err := im.root.Chtimes(h.Name, h.ModTime, h.ModTime); err != nil {
			return entryError(h.Name, err)
		}
	}
	return nil
}

// fits reports whether a directory has its header's mode and owner already. Another user's directory cannot be changed
// to them.
func (im *importer) fits(h *tar.Header) bool {
	info, err := im.root.Stat(h.Name)
	if err != nil || info.Mode() != h.FileInfo().Mode() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return !im.keepOwner || ok && int(st.Uid) == h.Uid && int(st.Gid) == h.Gid
}

// file creates a file. In a directory that this import created it writes the file directly, because no other process
// uses it yet. Elsewhere the file appears under its name when it is complete.
func (im *importer) file(h *tar.Header, content io.Reader) (err error) {
	mode := uint32(h.Mode & 0o7777)
	name := im.temp
	if im.created[im.dirName] {
		name = path.Base(h.Name)
	}
	fd, err := im.create(name, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(im.fd(), name, 0)
		}
	}()
	holes := sparse.NewWriter(fdFile(fd))
	_, err = io.CopyBuffer(holes, struct{ io.Reader }{content}, im.buf)
	if err == nil {
		err = holes.Finish()
	}
	if err == nil && im.keepOwner {
		err = unix.Fchown(fd, h.Uid, h.Gid)
	}
	if err == nil && (im.keepOwner || mode&0o7000 != 0) { // a write or another owner takes special bits away
		err = unix.Fchmod(fd, mode)
	}
	if err == nil {
		err = setFileTime(fd, h.ModTime)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err != nil || name != im.temp {
		return err
	}
	return im.publish(h.Name)
}

// create makes a file that was not there; an archive may hold one several times.
func (im *importer) create(name string, mode uint32) (int, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(im.fd(), name, flags, mode)
	if err != unix.EEXIST {
		return fd, err
	}
	if err := unix.Unlinkat(im.fd(), name, 0); err != nil {
		return -1, err
	}
	return unix.Openat(im.fd(), name, flags, mode)
}

// setFileTime sets an open file's times without a path lookup: futimens(3).
func setFileTime(fd int, t time.Time) error {
	ts := unix.NsecToTimespec(t.UnixNano())
	times := [2]unix.Timespec{ts, ts}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func (im *importer) dropTemp(err *error) {
	if *err != nil {
		_ = unix.Unlinkat(im.fd(), im.temp, 0)
	}
}

func (im *importer) setTime(t time.Time) error {
	ts := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(im.fd(), im.temp, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// publish renames the temporary file to its name and records whether the name was new.
func (im *importer) publish(name string) error {
	base := path.Base(name)
	if im.created[im.dirName] {
		return unix.Renameat(im.fd(), im.temp, im.fd(), base)
	}
	err := unix.Renameat2(im.fd(), im.temp, im.fd(), base, unix.RENAME_NOREPLACE)
	switch err {
	case nil:
		im.topmost = append(im.topmost, name)
		return nil
	case unix.EEXIST:
		return im.replacer.replace(im.fd(), im.temp, base)
	case unix.EINVAL, unix.ENOSYS:
		// The file system cannot report an existing target. So a broken import leaves the file.
		return unix.Renameat(im.fd(), im.temp, im.fd(), base)
	}
	return err
}

// symlink makes a link, wherever it leads. os.Root refuses later entries whose path goes through a link that leads
// outside.
func (im *importer) symlink(h *tar.Header) (err error) {
	if h.Linkname == "" {
		return refused(h.Name, "its target is empty")
	}
	if err := unix.Symlinkat(h.Linkname, im.fd(), im.temp); err != nil {
		return err
	}
	defer im.dropTemp(&err)
	if im.keepOwner {
		if err := unix.Fchownat(im.fd(), im.temp, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if err := im.setTime(h.ModTime); err != nil {
		return err
	}
	return im.publish(h.Name)
}

func (im *importer) pipe(h *tar.Header) (err error) {
	if err := unix.Mkfifoat(im.fd(), im.temp, uint32(h.Mode&0o7777)); err != nil {
		return err
	}
	defer im.dropTemp(&err)
	if im.keepOwner {
		if err := unix.Fchownat(im.fd(), im.temp, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if err := im.setTime(h.ModTime); err != nil {
		return err
	}
	return im.publish(h.Name)
}

func (im *importer) hardLink(h *tar.Header) (err error) {
	source, err := entryName(h.Linkname)
	if err != nil || source == "." {
		return refused(h.Name, "its target is outside")
	}
	if source == h.Name {
		return refused(h.Name, "it links to itself")
	}
	from, err := im.root.Open(path.Dir(source))
	if err != nil {
		return im.escape(h.Name, err)
	}
	defer func() { _ = from.Close() }()
	if err := unix.Linkat(int(from.Fd()), path.Base(source), im.fd(), im.temp, 0); err != nil {
		return err
	}
	defer im.dropTemp(&err)
	if err := im.publish(h.Name); err != nil {
		return err
	}
	// A rename onto another name of the same file succeeds without effect and leaves the source.
	if err := unix.Unlinkat(im.fd(), im.temp, 0); err != nil && err != unix.ENOENT {
		return err
	}
	return nil
}
