//go:build linux

package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// stdin arranges for a command's input and says whether there is any.
func (s *streams) stdin(from io.Reader) bool {
	if from == nil || s.err != nil {
		return false
	}
	if f, ok := reopen(from, unix.O_RDONLY); ok {
		s.files = append(s.files, f)
		return true
	}
	r, w, err := os.Pipe()
	if err != nil {
		s.err = err
		return false
	}
	s.files = append(s.files, r)
	// A read that blocks cannot be ended, so nothing waits for it. When the command has
	// ended the next write fails, and the copy ends.
	go func() {
		_, _ = io.Copy(w, from)
		_ = w.Close()
	}()
	return true
}

// copies is the copying of a command's output that this process must do.
type copies struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	lost error
}

// wait waits for the end of the copying and returns why output was lost, if it was.
func (c *copies) wait() error {
	c.wg.Wait()
	return c.lost
}

func (c *copies) lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = errors.Join(c.lost, err)
}

// output arranges for a command's output and says whether anybody wants it. The copying that this process must do
// is among copies.
func (s *streams) output(stream core.Stream, to io.Writer, copies *copies) bool {
	if to == nil || s.err != nil {
		return false
	}
	if f, ok := reopen(to, unix.O_WRONLY); ok {
		s.files = append(s.files, f)
		return true
	}
	r, w, err := os.Pipe()
	if err != nil {
		s.err = err
		return false
	}
	s.files = append(s.files, w)
	if raw, err := r.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) })
	}
	copies.wg.Go(func() {
		// Once it is closed, the supervisor's next write fails and the command gets to know.
		defer func() { _ = r.Close() }()
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{r}, make([]byte, 256<<10))
		copies.lose(core.LostOutput(stream, err))
	})
	return true
}

// reopen opens a pipe or a terminal once more, so that no byte of it has to pass through
// this process. The new description is non-blocking without making the caller's
// so, which other processes share; and a pending read of it can be given up. What
// cannot be opened again (sockets, a terminal of another user) is not handed over.
func reopen(stream any, flags int) (*os.File, bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return nil, false
	}
	info, err := f.Stat()
	if err != nil {
		return nil, false
	}
	fd := f.Fd()
	terminal := false
	if info.Mode()&fs.ModeCharDevice != 0 {
		_, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		terminal = err == nil
	}
	if !terminal && info.Mode()&fs.ModeNamedPipe == 0 {
		return nil, false
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, false
	}
	return again, true
}
