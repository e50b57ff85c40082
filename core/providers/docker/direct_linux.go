package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

const (
	// directPipe is the capacity of a direct call's pipes, in bytes.
	directPipe = 1 << 20
)

// directLine is three pipes; the first process has the other ends.
type directLine struct {
	in, out, report *os.File
	once            sync.Once
	text            []byte
}

// direct calls the first process of a container on this machine without the engine. It takes a descriptor from that
// process: root may do that, and so may the user of a rootless engine. The sandbox gets only pipes. An error means only
// that the direct way is not available.
func (e containers) direct(ctx context.Context, k known) (line, error) {
	if k.pid <= 0 || !strings.HasPrefix(e.At.Host, "unix://") {
		return nil, errors.ErrUnsupported
	}
	socket, err := enter(k)
	if err != nil {
		return nil, err
	}
	defer func() { _ = socket.Close() }()
	l := &directLine{}
	theirs := make([]*os.File, 3)
	defer func() {
		for _, f := range theirs {
			if f != nil {
				_ = f.Close()
			}
		}
		if err != nil {
			_ = l.Close()
		}
	}()
	for i, ours := range []**os.File{&l.in, &l.out, &l.report} {
		var r, w *os.File
		if r, w, err = os.Pipe(); err != nil {
			return nil, err
		}
		theirs[i], *ours = w, r
		if i == 0 {
			theirs[i], *ours = r, w
		}
		if raw, err := r.SyscallConn(); err == nil && i < 2 {
			// Less room is slower, not wrong.
			_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, directPipe) })
		}
	}
	if err = handOver(ctx, socket, theirs); err != nil {
		return nil, err
	}
	return l, nil
}

// enter returns a socket that is connected to the container's first process. It checks the command line and the mounts
// of the process, which identify the container: the engine could be on another machine, behind a local socket.
func enter(k known) (*os.File, error) {
	// The pidfd refers to the process that has the number now. The descriptor comes from that process, even if the number
	// is reused.
	process, err := unix.PidfdOpen(k.pid, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(process) }()
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", k.pid))
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", k.pid))
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(command, []byte(k.dir.Program()+"\x00"+wire.ModeBox+"\x00")) ||
		!bytes.Contains(mounts, []byte(k.container)) {
		return nil, errors.ErrUnsupported
	}
	door, err := unix.PidfdGetfd(process, wire.DoorFD, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(door) }()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = errors.Join(unix.Sendmsg(door, []byte{0}, unix.UnixRights(pair[1]), nil, 0), unix.Close(pair[1]))
	if err != nil {
		return nil, errors.Join(err, unix.Close(pair[0]))
	}
	return os.NewFile(uintptr(pair[0]), "call"), nil
}

// handOver passes the ends of the pipes to the first process and waits until it has them.
func handOver(ctx context.Context, socket *os.File, files []*os.File) error {
	deadline := time.Now().Add(directTimeout)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	if err := socket.SetDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Now()) })
	defer stop()
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			return err
		}
		if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return err
		}
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), []byte{0}, unix.UnixRights(fds...), nil, 0)
		return !errors.Is(sent, unix.EAGAIN)
	})
	runtime.KeepAlive(files)
	if err := errors.Join(err, sent); err != nil {
		return err
	}
	_, err = io.ReadFull(socket, make([]byte, 1))
	return err
}

// Read implements io.Reader.
func (l *directLine) Read(p []byte) (int, error) { return l.out.Read(p) }

// WriteTo implements io.WriterTo: the kernel may copy directly between two descriptors.
func (l *directLine) WriteTo(w io.Writer) (int64, error) { return l.out.WriteTo(w) }

// Write implements io.Writer.
func (l *directLine) Write(p []byte) (int, error) { return l.in.Write(p) }

// Close implements io.Closer.
func (l *directLine) Close() error {
	for _, f := range []*os.File{l.in, l.out, l.report} {
		if f != nil {
			_ = f.Close()
		}
	}
	return nil
}

// CloseWrite implements line.
func (l *directLine) CloseWrite() error { return l.in.Close() }

// SetReadDeadline implements line.
func (l *directLine) SetReadDeadline(t time.Time) error { return l.out.SetReadDeadline(t) }

// SetWriteDeadline implements line.
func (l *directLine) SetWriteDeadline(t time.Time) error { return l.in.SetWriteDeadline(t) }

func (l *directLine) diagnostics() []byte {
	l.once.Do(func() { l.text, _ = io.ReadAll(io.LimitReader(l.report, guest.MaxReport)) })
	return l.text
}
