//go:build linux

package inside

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// copyBuffer is large because each system call is dear inside a sandbox.
const copyBuffer = 1 << 20

// runFiles does one file operation and returns 0 after success.
func runFiles(args []string, stdin, stdout, stderr *os.File) int {
	var report guest.Report
	defer func() { send(stderr, report) }()

	text := ""
	if len(args) == 1 {
		text = args[0]
	}
	request, err := guest.ParseRequest(text)
	if err != nil {
		report.Fail("", err)
		return 1
	}
	// The process is short-lived and holds little: collecting would only cost time.
	debug.SetGCPercent(800)
	// On gVisor, idle threads that search for work cost several times the work itself.
	runtime.GOMAXPROCS(1)
	unix.Umask(0)
	signal.Ignore(unix.SIGPIPE)
	// A first signal breaks the operation off, so that a half-made file is taken back.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()

	f := files{ctx: ctx, in: &body{ctx: ctx, r: stdin}, out: stdout, report: &report}
	if err := f.do(request); err != nil {
		report.Fail(string(request.Path), err)
		return 1
	}
	return 0
}

// body is a request's body. Its reads fail after the end of ctx.
type body struct {
	ctx context.Context //nolint:containedctx // io.Reader takes no context
	r   io.Reader
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

// files carries out one request.
type files struct {
	ctx    context.Context //nolint:containedctx // one lives for one request
	in     io.Reader
	out    io.Writer
	report *guest.Report
}

func (f *files) do(r guest.Request) error {
	path := filepath.Clean(string(r.Path))
	switch r.Op {
	case guest.OpStat:
		return f.stat(path)
	case guest.OpReadDir:
		return f.readDir(path)
	case guest.OpRead:
		return f.read(path)
	case guest.OpWrite:
		return f.write(path, r)
	case guest.OpMkdir:
		return mkdir(path, r.Parents)
	case guest.OpRemove:
		return remove(f.ctx, path, r.Recursive)
	case guest.OpExport:
		return export(f.ctx, f.out, path, f.report)
	case guest.OpImport:
		in := f.in
		if r.Framed {
			in = guest.NewBodyReader(f.in)
		}
		return importArchive(path, in, r, f.report)
	}
	return core.Errorf(core.KindUnsupported, string(r.Op), "", "sb-guest does not support the operation %q", string(r.Op))
}

func (f *files) stat(path string) error {
	entry, err := entryOf(path)
	if err != nil {
		return err
	}
	return json.NewEncoder(f.out).Encode(entry)
}

func (f *files) readDir(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f.out, copyBuffer)
	encoder := json.NewEncoder(w)
	for _, e := range entries {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		entry, err := entryOf(filepath.Join(path, e.Name()))
		if guest.KindOf(err) == core.KindNotFound {
			continue // removed since the directory was read
		}
		if err != nil {
			return err
		}
		if err := encoder.Encode(entry); err != nil {
			return err
		}
	}
	return w.Flush()
}

func entryOf(path string) (guest.Entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return guest.Entry{}, err
	}
	e := guest.Entry{Path: []byte(path), Size: info.Size(), Mode: uint32(info.Mode()), ModTime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.UID, e.GID = int(st.Uid), int(st.Gid)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, err := os.Readlink(path)
		if err != nil {
			return guest.Entry{}, err
		}
		e.Link = []byte(link)
	}
	return e, nil
}

func (f *files) read(path string) error {
	// O_NONBLOCK, for a pipe would make the open wait for its writer.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return unix.EISDIR
	default:
		return core.Errorf(core.KindConflict, "", path, "not a regular file")
	}
	_, err = copyAll(f.out, fdReader(fd))
	return err
}

// fdReader reads a regular file without the runtime's poller.
type fdReader int

func (r fdReader) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// copyAll copies with the large buffer and without the runtime's shortcuts (splice of a pipe), which are slower on
// gVisor.
func copyAll(w io.Writer, r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, copyBuffer))
}

func mkdir(path string, parents bool) error {
	if parents {
		return os.MkdirAll(path, defaultDirMode)
	}
	return os.Mkdir(path, defaultDirMode)
}
