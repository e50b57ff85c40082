//go:build linux

package pipes

import (
	"os"

	"golang.org/x/sys/unix"
)

// Size is the capacity of a pipe that a command writes to, in bytes.
const Size = 1 << 20

// Set are the pipes of one command, in the order of its descriptors. The zero value has none. A Set is not safe for
// concurrent use.
type Set struct {
	theirs, ours []*os.File
	err          error
}

// Input adds a pipe that the command reads and returns the end to write; nil after a failure, which Err returns.
func (s *Set) Input() *os.File {
	r, w := s.pipe()
	return s.add(w, r)
}

// Output adds a pipe that the command writes and returns the end to read; nil after a failure, which Err returns.
func (s *Set) Output() *os.File {
	r, w := s.pipe()
	if s.err == nil {
		if raw, err := r.SyscallConn(); err == nil {
			// Less room is slower, not wrong.
			_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, Size) })
		}
	}
	return s.add(r, w)
}

func (s *Set) pipe() (r, w *os.File) {
	if s.err == nil {
		r, w, s.err = os.Pipe()
	}
	return r, w
}

func (s *Set) add(ours, theirs *os.File) *os.File {
	if s.err != nil {
		return nil
	}
	s.ours, s.theirs = append(s.ours, ours), append(s.theirs, theirs)
	return ours
}

// Err is why a pipe could not be made; the set makes none after it.
func (s *Set) Err() error { return s.err }

// Theirs are the ends that the command gets: its descriptors from 0 on.
func (s *Set) Theirs() []*os.File { return s.theirs }

// CloseTheirs closes the command's ends, once it has its own.
func (s *Set) CloseTheirs() { closeAll(s.theirs) }

// CloseOurs closes the ends that Input and Output returned, if no command started.
func (s *Set) CloseOurs() { closeAll(s.ours) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
