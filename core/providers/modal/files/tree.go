package files

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// In an image without tar, directories are copied file by file. Several files are copied in parallel to hide the round
// trips. Files above smallFile are streamed one by one.
const (
	filesAtOnce = 8
	smallFile   = 256 << 10 // bytes
)

// importFiles unpacks an archive on this machine and writes its entries.
func (f *Files) importFiles(ctx context.Context, id, dir string, archive io.Reader) error {
	if info, err := f.toolStat(ctx, id, dir); err != nil {
		return err
	} else if info.Mode&(fs.ModeDir|fs.ModeSymlink) == 0 {
		return core.Errorf(core.KindConflict, "modal.import", dir, "it is not a directory")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &treeWriter{files: f, id: id, dir: dir, slots: make(chan struct{}, filesAtOnce), cancel: cancel}
	err := w.entries(ctx, newEntries(archive))
	w.work.Wait()
	// The first failure has canceled the others.
	if w.err != nil {
		return w.err
	}
	return err
}

type treeWriter struct {
	files   *Files
	id, dir string
	slots   chan struct{}
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu  sync.Mutex
	err error
}

func (w *treeWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.err == nil {
		w.err = err
		w.cancel()
	}
}

func (w *treeWriter) entries(ctx context.Context, in *entries) error {
	for {
		h, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		target := path.Join(w.dir, h.Name) //nolint:gosec // entries.check keeps it inside
		opts := core.WriteOptions{Mode: h.FileInfo().Mode().Perm(), Parents: true}
		switch {
		case h.Typeflag == tar.TypeDir:
			w.work.Wait()
			if err := w.files.Mkdir(ctx, w.id, target, true); err != nil {
				return err
			}
		case h.Typeflag == tar.TypeReg && h.Size <= smallFile:
			content, err := io.ReadAll(in.tar)
			if err != nil {
				return archiveError(err)
			}
			w.start(ctx, func() error { return w.files.WriteFile(ctx, w.id, target, bytes.NewReader(content), opts) })
		case h.Typeflag == tar.TypeReg:
			if err := w.files.WriteFile(ctx, w.id, target, in.tar, opts); err != nil {
				return archiveError(err)
			}
		case h.Typeflag == tar.TypeSymlink, h.Typeflag == tar.TypeLink:
			w.work.Wait() // a hard link's other name
			if err := w.link(ctx, h, target); err != nil {
				return err
			}
		case h.Typeflag == tar.TypeFifo:
			w.start(ctx, func() error { return w.pipe(ctx, h.FileInfo().Mode().Perm(), target) })
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// start runs do in parallel with other work.
func (w *treeWriter) start(ctx context.Context, do func() error) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	w.work.Go(func() {
		w.fail(do())
		<-w.slots
	})
}

// makeLink creates a link with the image's ln. Arguments: verb, the link, its target, "1" for a symbolic one.
const makeLink = unescape + `
link=$p; set -- "$1" "$3" "$4"; ` + unescape + `
s=; [ "$3" = 1 ] && s=-s
[ -d "$link" ] && [ ! -L "$link" ] && exit 21
ln $s -f -- "$p" "$link" || exit 19
`

func (w *treeWriter) link(ctx context.Context, h *tar.Header, target string) error {
	to, symbolic := h.Linkname, h.Typeflag == tar.TypeSymlink
	if !symbolic {
		to = path.Join(w.dir, to) //nolint:gosec // entries.check keeps it inside
	}
	_, err := w.files.programs.Answer(ctx, w.id, "import", target,
		scriptArgv(makeLink, "link", target, escapePath(to), flag(symbolic)), scriptVerdict)
	return err
}

// makePipe creates a named pipe with the image's mkfifo. Arguments: verb, the pipe, its mode.
const makePipe = unescape + `
[ -d "$p" ] && [ ! -L "$p" ] && exit 21
rm -f -- "$p" || exit 19
mkfifo -m "$3" -- "$p" || exit 19
`

func (w *treeWriter) pipe(ctx context.Context, mode fs.FileMode, target string) error {
	_, err := w.files.programs.Answer(ctx, w.id, "import", target,
		scriptArgv(makePipe, "pipe", target, strconv.FormatUint(uint64(mode), 8)), scriptVerdict)
	return err
}

// exportFiles walks a tree with the tool and creates the archive on this machine.
func (f *Files) exportFiles(ctx context.Context, id, name string) (io.ReadCloser, error) {
	top, err := f.Stat(ctx, id, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := &treeReader{
			files: f, id: id, above: path.Dir(name), out: tar.NewWriter(w), ahead: make(chan *aheadFile, filesAtOnce),
		}
		err := t.run(ctx, cancel, top)
		_ = w.CloseWithError(err)
	}()
	return &treeStream{PipeReader: r, stop: func() { cancel(); _ = r.CloseWithError(context.Canceled); <-done }}, nil
}

// treeStream is an archive in progress.
type treeStream struct {
	*io.PipeReader
	stop func()
}

func (s *treeStream) Close() error {
	s.stop()
	return nil
}

// treeReader creates an archive. The walk runs ahead of the writing and prefetches small files.
type treeReader struct {
	files     *Files
	id, above string
	out       *tar.Writer
	ahead     chan *aheadFile
}

// aheadFile is an entry whose content may be prefetched.
type aheadFile struct {
	info    core.FileInfo
	fetched chan struct{} // nil if the content is read when it is written
	content []byte
	err     error
}

func (t *treeReader) run(ctx context.Context, cancel context.CancelFunc, top core.FileInfo) error {
	var walk sync.WaitGroup
	var walkErr error
	walk.Go(func() {
		defer close(t.ahead)
		walkErr = t.walk(ctx, &walk, top)
	})
	var err error
	for file := range t.ahead {
		if err == nil {
			if err = t.write(ctx, file); err != nil {
				cancel()
			}
		}
	}
	walk.Wait()
	if err = errors.Join(err, walkErr); err != nil {
		return err
	}
	return t.out.Close()
}

func (t *treeReader) walk(ctx context.Context, work *sync.WaitGroup, info core.FileInfo) error {
	file := &aheadFile{info: info}
	if info.Mode.IsRegular() && info.Size <= smallFile {
		file.fetched = make(chan struct{})
		work.Go(func() {
			defer close(file.fetched)
			file.content, file.err = t.read(ctx, info.Path)
		})
	}
	select {
	case t.ahead <- file:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !info.Mode.IsDir() {
		return nil
	}
	below, err := t.files.ReadDir(ctx, t.id, info.Path)
	if err != nil {
		return err
	}
	for _, info := range below {
		if err := t.walk(ctx, work, info); err != nil {
			return err
		}
	}
	return nil
}

func (t *treeReader) read(ctx context.Context, name string) ([]byte, error) {
	content, err := t.files.ReadFile(ctx, t.id, name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(content, 2*smallFile))
	if len(data) == 2*smallFile {
		err = core.Errorf(core.KindConflict, "modal.export", name, "it grew while it was read")
	}
	return data, errors.Join(err, content.Close())
}

func (t *treeReader) write(ctx context.Context, file *aheadFile) error {
	info := file.info
	name := strings.TrimPrefix(strings.TrimPrefix(info.Path, t.above), "/")
	if name == "" {
		name = "."
	}
	h := &tar.Header{
		Name: name, Mode: int64(info.Mode.Perm()), ModTime: info.ModTime,
		Uid: max(info.UID, 0), Gid: max(info.GID, 0), Format: tar.FormatPAX,
	}
	var content io.Reader
	switch {
	case info.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case info.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, info.Link
	case info.Mode&fs.ModeSocket != 0:
		h.Typeflag = guest.TypeSocket
	case info.Mode&fs.ModeNamedPipe != 0:
		h.Typeflag = tar.TypeFifo
	case info.Mode&fs.ModeDevice != 0:
		h.Typeflag = tar.TypeChar
	case !info.Mode.IsRegular():
		return nil
	case file.fetched != nil:
		<-file.fetched
		if file.err != nil {
			return file.err
		}
		h.Typeflag, h.Size, content = tar.TypeReg, int64(len(file.content)), bytes.NewReader(file.content)
	default:
		stream, err := t.files.ReadFile(ctx, t.id, info.Path)
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		h.Typeflag, h.Size, content = tar.TypeReg, info.Size, stream
	}
	if err := t.out.WriteHeader(h); err != nil || content == nil {
		return err
	}
	_, err := io.Copy(t.out, content)
	return err
}
