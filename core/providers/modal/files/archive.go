package files

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// packTree writes a tar archive of $p, whose names begin with its last element. It accepts GNU tar's exit code 1, for
// files that changed during the read. tar leaves sockets out, so their names come first, each ended by a NUL byte; an
// empty name ends them.
const packTree = unescape + `
[ -e "$p" ] || [ -L "$p" ] || exit 20
command -v tar >/dev/null && command -v find >/dev/null || exit 27
d=${p%/*}; b=${p##*/}
cd "${d:-/}" || exit 23
find "./$b" -type s -exec sh -c 'for s; do printf "%s\0" "$s"; done' sh {} + 2>/dev/null
printf '\0'
if tar --format=pax --version >/dev/null 2>&1; then
	tar --format=pax -cf - -- "${b:-.}"; c=$?
	[ "$c" -le 1 ] || exit 19
else
	tar -cf - "${b:-.}" || exit 19
fi
`

// unpackTree unpacks the archive on stdin into a new directory below $p. It writes a line before it reads. Arguments:
// verb, path, the new directory's name, 1 to keep owners.
const unpackTree = unescape + `
[ -d "$p" ] || { [ -e "$p" ] && exit 22; exit 20; }
command -v tar >/dev/null || exit 27
mkdir "${p%/}/$3" || exit 23
echo ready
o=-o; [ "$4" = 1 ] && o=
tar -x -p $o -f - -C "${p%/}/$3" || exit 19
`

// commitTree moves the unpacked files into place: whole trees where nothing exists, else file by file, each atomically.
// An existing directory keeps its mode and owner. With 1 as the fourth argument it gets the archive's mode, and with 1
// as the fifth also its owner. The script rejects a directory behind a link that leads outside.
const commitTree = unescape + `
from=${p%/}/$3 modes=$4 owners=$5
root=$(cd -P "$p" && pwd) || exit 20
root=${root%/}
trap 'rm -rf "$from"' EXIT
merge() {
	to=$(cd -P "${p%/}$1" && pwd) || exit 23
	case ${to%/}/ in "$root"/*) ;; *) exit 26;; esac
	set --  "$1"
	for e in "$from$1"/* "$from$1"/.[!.]* "$from$1"/..?*; do
		[ -e "$e" ] || [ -L "$e" ] || continue
		t=${p%/}$1/${e##*/}
		if [ -d "$e" ] && [ ! -L "$e" ]; then
			if [ -d "$t" ]; then (merge "$1/${e##*/}") || exit; like "$e" "$t" || exit 23; continue; fi
			[ -e "$t" ] || [ -L "$t" ] && exit 22
		else
			[ -d "$t" ] && [ ! -L "$t" ] && exit 21
		fi
		set -- "$@" "$e"
		if [ $# -gt 500 ]; then move "$@" || exit; set -- "$1"; fi
	done
	[ $# = 1 ] || move "$@" || exit
}
like() {
	[ "$modes" = 1 ] || return 0
	if [ "$owners" = 1 ]; then
		o=$(stat -c %u:%g "$1") || return
		[ "$o" = "$(stat -L -c %u:%g "$2")" ] || chown "$o" "$2" || return
	fi
	m=$(stat -c %a "$1") || return
	[ "$m" = "$(stat -L -c %a "$2")" ] || chmod "00$m" "$2"
}
move() {
	to=${p%/}$1/; shift
	mv -f -- "$@" "$to" || { [ -w "$to" ] || exit 23; exit 19; }
}
merge ""
`

// Export implements core.FileSystem. It streams the output of the image's tar; without tar it copies file by file.
func (f *Files) Export(ctx context.Context, id, name string) (io.ReadCloser, error) {
	content, err := f.stream(ctx, id, "export", name, scriptArgv(packTree, "pack", name), scriptVerdict)
	if errors.Is(err, errNoTar) || errors.Is(err, errNoShell) {
		return f.exportFiles(ctx, id, name)
	}
	if err != nil {
		return nil, err
	}
	archive := bufio.NewReaderSize(content, copyBlock)
	sockets, err := socketEntries(archive)
	if err != nil {
		return nil, errors.Join(core.Wrap("modal.export", name, err), content.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(sockets), archive), content}, nil
}

// maxSockets bounds the names of sockets in an export, in bytes.
const maxSockets = 1 << 20

// socketEntries reads the names that packTree writes before the archive, and returns entries for them.
func socketEntries(r *bufio.Reader) ([]byte, error) {
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for size := 0; size < maxSockets; {
		name, err := r.ReadSlice(0)
		if errors.Is(err, io.EOF) {
			return nil, archiveError(io.ErrUnexpectedEOF)
		}
		if err != nil {
			return nil, err
		}
		if len(name) == 1 {
			return archive.Bytes(), out.Flush()
		}
		size += len(name)
		if err := out.WriteHeader(&tar.Header{
			Name: path.Clean(string(name[:len(name)-1])), Typeflag: guest.TypeSocket, Format: tar.FormatPAX,
		}); err != nil {
			return nil, err
		}
	}
	return nil, core.Errorf(core.KindExhausted, "", "", "it has too many sockets")
}

// Import implements core.FileSystem. The image's tar unpacks the archive in a temporary directory, and the complete
// files are moved into place. Without tar, Import copies file by file.
func (f *Files) Import(ctx context.Context, id, dir string, archive io.Reader, opts core.ImportOptions) error {
	aside := ".sb-import-" + uuid.NewString()
	o, err := f.programs.Operate(ctx, id, "import", dir, scriptArgv(unpackTree, "unpack", dir, aside,
		flag(opts.KeepOwner)))
	if err != nil {
		return err
	}
	if answer, err := bufio.NewReader(o.out).ReadString('\n'); answer != "ready\n" {
		if err == nil {
			err = core.Errorf(core.KindInternal, "modal.import", dir, "the sandbox's shell answered %q", answer)
		}
		if endErr := o.end(ctx, scriptVerdict); endErr != nil {
			err = endErr
		}
		if errors.Is(err, errNoTar) || errors.Is(err, errNoShell) {
			return f.importFiles(ctx, id, dir, archive)
		}
		return err
	}
	sendErr := o.Send(ctx, func(to io.Writer) error { return repack(to, newEntries(archive)) })
	err = o.end(ctx, scriptVerdict)
	if sendErr != nil {
		err = core.Wrap("modal.import", dir, sendErr)
	}
	if err != nil {
		return errors.Join(err, f.discard(ctx, id, path.Join(dir, aside)))
	}
	if _, err = f.programs.Answer(ctx, id, "import", dir, scriptArgv(commitTree, "commit", dir, aside,
		flag(opts.DirectoryModes), flag(opts.KeepOwner)), scriptVerdict); err != nil {
		err = errors.Join(err, f.discard(ctx, id, path.Join(dir, aside)))
	}
	return err
}

// repack checks an archive in transit and writes it in a format that the oldest tar can read.
func repack(to io.Writer, in *entries) error {
	buffered := bufio.NewWriterSize(to, copyBlock)
	out := tar.NewWriter(buffered)
	buffer := make([]byte, copyBlock)
	for {
		h, err := in.next()
		if errors.Is(err, io.EOF) {
			return errors.Join(out.Close(), buffered.Flush())
		}
		if err != nil {
			return err
		}
		h.Format, h.PAXRecords, h.Xattrs = tar.FormatGNU, nil, nil //nolint:staticcheck // not in GNU's format
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in.tar}, buffer); err != nil {
			return archiveError(err)
		}
	}
}

// entries reads an untrusted archive for a directory. Every entry must be inside and not behind a link, and the
// archive's end must be marked. Symbolic links may have any target.
type entries struct {
	tar     *tar.Reader
	trailer *trailerReader
	// links are the symbolic links so far; no entry may be behind one.
	links map[string]bool
}

func newEntries(archive io.Reader) *entries {
	trailer := &trailerReader{r: bufio.NewReaderSize(archive, copyBlock)}
	return &entries{tar: tar.NewReader(trailer), trailer: trailer, links: map[string]bool{}}
}

// trailerReader records whether a read passed the end: a complete archive has a marked end.
type trailerReader struct {
	r      io.Reader
	broken bool
}

func (t *trailerReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.broken = t.broken || n == 0 && errors.Is(err, io.EOF)
	return n, err
}

// next returns the next entry that is a file, a directory or a link; io.EOF at the archive's end.
func (e *entries) next() (*tar.Header, error) {
	for {
		h, err := e.tar.Next()
		if errors.Is(err, io.EOF) && e.trailer.broken {
			return nil, archiveError(io.ErrUnexpectedEOF)
		}
		if errors.Is(err, io.EOF) {
			// The sender may still be writing padding.
			if _, drainErr := io.Copy(io.Discard, e.trailer); drainErr != nil {
				return nil, drainErr
			}
			return nil, io.EOF
		}
		if err != nil {
			return nil, archiveError(err)
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo:
		case tar.TypeGNUSparse, tar.TypeCont:
			h.Typeflag = tar.TypeReg
		default:
			continue // devices, global headers
		}
		if err := e.check(h); err != nil {
			return nil, err
		}
		return h, nil
	}
}

// check rejects an entry that points outside, through its own name or through a link in the archive.
func (e *entries) check(h *tar.Header) error {
	inside := func(name string) (string, bool) {
		if name == "" || path.IsAbs(name) || strings.ContainsRune(name, 0) {
			return "", false
		}
		for part := range strings.SplitSeq(name, "/") {
			if part == ".." {
				return "", false
			}
		}
		name = path.Clean(name)
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			if e.links[at] {
				return "", false
			}
		}
		return name, true
	}
	name, ok := inside(h.Name)
	if !ok || name == "." && h.Typeflag != tar.TypeDir {
		return refusedEntry(h.Name)
	}
	delete(e.links, name)
	switch h.Typeflag {
	case tar.TypeSymlink:
		if h.Linkname == "" {
			return refusedEntry(h.Name)
		}
		e.links[name] = true
	case tar.TypeLink:
		source, ok := inside(h.Linkname)
		if !ok || source == name || e.links[source] {
			return refusedEntry(h.Name)
		}
		h.Linkname = source
	case tar.TypeDir:
		name += "/"
	}
	h.Name = name
	return nil
}

func refusedEntry(name string) error {
	return core.Errorf(core.KindUsage, "modal.import", name, "the archive's entry is refused: it points outside")
}

// archiveError distinguishes damage in an archive from failures of its stream.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return core.Errorf(core.KindUsage, "modal.import", "", "the archive is damaged or incomplete: %w", err)
	}
	return err
}
