//go:build linux

package cgroup

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Member is a process that was started in a group. It opens the control files early, because it may not see them later.
// A nil Member is in no group: its methods do nothing.
type Member struct {
	home   []*os.File // cgroup.procs of each directory in Group.Home
	barred error      // why home could not be opened
	events *os.File   // counts processes that the kernel killed; nil without the memory controller
}

// Member returns the calling process as a member of the group. The caller closes it.
func (g *Group) Member() *Member {
	m := &Member{}
	for _, dir := range g.Home {
		f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			m.barred = errors.Join(m.barred, err)
			continue
		}
		m.home = append(m.home, f)
	}
	file := "memory.events"
	if g.Version == 1 {
		file = "memory.oom_control"
	}
	for _, dir := range g.Dirs {
		if f, err := os.Open(filepath.Join(dir, file)); err == nil { // the others belong to other hierarchies
			m.events = f
			break
		}
	}
	return m
}

// Leave moves the calling process to the groups in Group.Home. It may be called once.
func (m *Member) Leave() error {
	if m == nil {
		return nil
	}
	errs := []error{m.barred}
	for _, f := range m.home {
		_, err := f.WriteString(strconv.Itoa(os.Getpid()))
		errs = append(errs, err, f.Close()) // an open file could move other processes out of their groups
	}
	m.home = nil
	return errors.Join(errs...)
}

// OutOfMemory reports whether the kernel has killed a process of the group for its memory limit.
func (m *Member) OutOfMemory() bool {
	if m == nil || m.events == nil {
		return false
	}
	text, err := io.ReadAll(io.NewSectionReader(m.events, 0, 1<<16))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}
	return false
}

// Close closes the files.
func (m *Member) Close() error {
	if m == nil {
		return nil
	}
	var errs []error
	for _, f := range append(m.home, m.events) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
