package service

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// modeBits are the bits of a file's mode in an archive (POSIX pax, c_mode).
const modeBits = 0o7777

// archiveMode is a mode as archives have it.
func archiveMode(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	for special, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&special != 0 {
			bits |= bit
		}
	}
	return bits
}

// movedTree copies files from one sandbox to another as one archive, and records a summary of each file.
type movedTree struct {
	// sums has a summary of each file by path: type, mode, and a link's target or a hash of the content.
	sums       map[string]string
	bytes      int64
	unreadable []string
	// left has the files that no copy carries, such as devices and sockets.
	left   leftOut
	roots  []string
	report func(done int64)
}

// maxLeftNames bounds the files that leftOut keeps, because the sandbox chooses how many there are.
const maxLeftNames = 1 << 16

// leftNamed is the highest number of names in the warning.
const leftNamed = 8

// leftOut has the files that were left out of a copy.
type leftOut struct {
	names map[string]bool
	order []string // the first names, as the archive has them
	count int
}

func (l *leftOut) add(name string) {
	if l.names[name] {
		return
	}
	if l.names == nil {
		l.names = map[string]bool{}
	}
	if l.count++; len(l.names) < maxLeftNames {
		l.names[name] = true
	}
	if len(l.order) < leftNamed {
		l.order = append(l.order, name)
	}
}

// warning is a sentence about the files; "" without any.
func (l *leftOut) warning() string {
	if l.count == 0 {
		return ""
	}
	text := strings.Join(l.order, ", ")
	if more := l.count - len(l.order); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "devices and sockets were left out: " + text
}

// copy copies the roots. Each root includes all below it; a slash at its end means the directory alone.
func (t *movedTree) copy(
	ctx context.Context, from core.FileSystem, source string, into core.FileSystem, target string, roots []string,
	keepOwner bool,
) error {
	t.sums, t.roots = map[string]string{}, roots
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		w := tar.NewWriter(writer)
		err := t.write(ctx, from, source, w)
		if err == nil {
			err = w.Close()
		}
		_ = writer.CloseWithError(err)
		done <- err
	}()
	importErr := into.Import(ctx, target, "/", reader, core.ImportOptions{KeepOwner: keepOwner, DirectoryModes: true})
	_ = reader.CloseWithError(cmp.Or(importErr, io.ErrClosedPipe))
	if err := <-done; err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, importErr) {
		return err
	}
	return importErr
}

// write writes all roots to an archive.
func (t *movedTree) write(ctx context.Context, fsys core.FileSystem, id string, w *tar.Writer) error {
	for _, root := range t.roots {
		if err := t.root(ctx, fsys, id, root, w); err != nil {
			return err
		}
	}
	return nil
}

// root writes one root. It skips unreadable files and files that disappear during the copy. The rest of their directory
// is then copied entry by entry.
func (t *movedTree) root(ctx context.Context, fsys core.FileSystem, id, root string, w *tar.Writer) error {
	if name, alone := strings.CutSuffix(root, "/"); alone {
		info, err := fsys.Stat(ctx, id, name)
		if err != nil {
			return gone(err)
		}
		header := &tar.Header{
			Typeflag: tar.TypeDir, Name: strings.TrimPrefix(name, "/") + "/", Mode: archiveMode(info.Mode),
			ModTime: info.ModTime, Uid: info.UID, Gid: info.GID, Format: tar.FormatPAX,
		}
		t.note(name, header, "")
		return w.WriteHeader(header)
	}
	err := t.export(ctx, fsys, id, root, w)
	if err == nil || !errors.Is(err, core.KindUnauthorized) && !errors.Is(err, core.KindNotFound) {
		return err
	}
	info, statErr := fsys.Stat(ctx, id, root)
	switch {
	case statErr != nil:
		return t.without(root, statErr)
	case !info.Mode.IsDir() && errors.Is(err, core.KindNotFound):
		return err // another file has the name by now
	case !info.Mode.IsDir():
		return t.without(root, err)
	}
	entries, err := fsys.ReadDir(ctx, id, root)
	if err != nil {
		return t.without(root, err)
	}
	if err := t.root(ctx, fsys, id, root+"/", w); err != nil {
		return err
	}
	for _, entry := range entries {
		if err := t.root(ctx, fsys, id, entry.Path, w); err != nil {
			return err
		}
	}
	return nil
}

// without records a skipped file if err is a refused read. It ignores a file that has disappeared, and returns other
// errors.
func (t *movedTree) without(name string, err error) error {
	if errors.Is(err, core.KindUnauthorized) {
		t.unreadable = append(t.unreadable, name)
		return nil
	}
	return gone(err)
}

// gone returns nil for a file that has disappeared, and err otherwise.
func gone(err error) error {
	if errors.Is(err, core.KindNotFound) {
		return nil
	}
	return err
}

// errBroken reports an archive that ended within a file. No entry can follow that.
var errBroken = errors.New("the archive ended within a file")

// export writes the archive of Export for a path.
func (t *movedTree) export(ctx context.Context, fsys core.FileSystem, id, root string, w *tar.Writer) (err error) {
	archive, err := fsys.Export(ctx, id, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	parent := path.Dir(root)
	place := func(name string) string { return path.Join(parent, name) }
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := place(header.Name)
		switch header.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeFifo:
		case tar.TypeLink:
			if target := place(header.Linkname); t.left.names[target] {
				t.left.add(name)
				continue
			}
		case tar.TypeXGlobalHeader:
			continue
		default: // the programs that need devices and sockets make them
			t.left.add(name)
			continue
		}
		if _, twice := t.sums[name]; twice {
			continue
		}
		header.Name, header.Format = strings.TrimPrefix(name, "/"), tar.FormatPAX
		if header.Typeflag == tar.TypeDir {
			header.Name += "/"
		}
		if header.Typeflag == tar.TypeLink {
			header.Linkname = strings.TrimPrefix(place(header.Linkname), "/")
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.CopyN(io.MultiWriter(w, sum), r, header.Size)
		if err != nil {
			return core.Errorf(core.KindInternal, "move", name, "%w: %w", errBroken, err)
		}
		t.bytes += n
		if t.report != nil {
			t.report(t.bytes)
		}
		t.note(name, header, hexOf(sum))
	}
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// note records the summary of a file.
func (t *movedTree) note(name string, header *tar.Header, content string) {
	switch header.Typeflag {
	case tar.TypeDir:
		t.sums[name] = fmt.Sprintf("directory %o", header.Mode&modeBits)
	case tar.TypeSymlink:
		t.sums[name] = "link " + header.Linkname
	case tar.TypeLink:
		t.sums[name] = t.sums["/"+header.Linkname]
	case tar.TypeFifo:
		t.sums[name] = fmt.Sprintf("pipe %o", header.Mode&modeBits)
	default:
		t.sums[name] = fmt.Sprintf("file %o %s", header.Mode&modeBits, content)
	}
}

// prove reads all files back from the target and compares them.
func (t *movedTree) prove(ctx context.Context, fsys core.FileSystem, id string) error {
	there := movedTree{sums: map[string]string{}, roots: t.roots}
	if err := there.write(ctx, fsys, id, tar.NewWriter(io.Discard)); err != nil {
		return err
	}
	for name, sum := range t.sums {
		if got := there.sums[name]; got != sum {
			return core.Errorf(core.KindConflict, "move", name, "it differs at the target: %q instead of %q", got, sum).
				WithHint("the source was kept; if a process writes there, stop it and try again")
		}
	}
	return nil
}

// digest is one hash over all files.
func (t *movedTree) digest() string {
	names := make([]string, 0, len(t.sums))
	for name := range t.sums {
		names = append(names, name)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		_, _ = fmt.Fprintf(sum, "%q %s\n", name, t.sums[name])
	}
	return hexOf(sum)
}
