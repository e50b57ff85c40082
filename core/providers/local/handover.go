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

// stdin connects a command's input and reports whether there is any.
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
	// A blocked read cannot be canceled, so nothing waits for it. After the command's end the next write fails, which ends
	// the copy.
	go func() {
		_, _ = io.Copy(w, from)
		_ = w.Close()
	}()
	return true
}

// copies tracks the goroutines that copy a command's output in this process.
type copies struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	lost error
}

// wait waits until all output is copied. An error is the reason why output was lost.
func (c *copies) wait() error {
	c.wg.Wait()
	return c.lost
}

func (c *copies) lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = errors.Join(c.lost, err)
}

// output connects a command's output and reports whether it has a reader. copies receives the copying that this process
// must do.
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
		// After Close the supervisor's next write fails, which informs the command.
		defer func() { _ = r.Close() }()
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{r}, make([]byte, 256<<10))
		copies.lose(core.LostOutput(stream, err))
	})
	return true
}

// reopen opens a pipe or a terminal again, so that none of its bytes pass through this process. The new file
// description is non-blocking, so a pending read can be canceled. The caller's description stays blocking, because
// other processes share it. Sockets and terminals of other users cannot be reopened: ok is false.
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
