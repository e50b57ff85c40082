//go:build linux

package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound a group; 0 sets none.
type Limits struct {
	CPU    float64 // cores
	Memory int64   // bytes, of processes and of kernel memory for them
	Tasks  int     // processes and threads, counted by this machine's kernel
}

// Group is the control group of one sandbox. In version 1 it is a set with a group in each hierarchy.
type Group struct {
	Version int `json:"version"`
	// Dirs are the group's directories, in the order of Home.
	Dirs []string `json:"dirs"`
	// Home has the directories of the groups that the maker of the group was in.
	Home []string `json:"home"`
	// Controllers are the usable controllers among "cpu", "memory" and "pids".
	Controllers []string `json:"controllers"`
}

// Find returns the location for a group of that name, and makes nothing. In version 1 it is below the calling process's
// group. In version 2 it is beside that group, because a group with processes cannot have children with limits. The
// error is the reason why there can be no group.
func Find(name string) (*Group, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	hierarchies := parse(string(own), string(mounts))
	g := &Group{Version: 1}
	for _, controller := range controllers() {
		i := slices.IndexFunc(hierarchies, func(h hierarchy) bool {
			return !h.unified && slices.Contains(h.controllers, controller)
		})
		if i < 0 {
			continue
		}
		g.Controllers = append(g.Controllers, controller)
		if dir := filepath.Join(hierarchies[i].dir, name); !slices.Contains(g.Dirs, dir) {
			g.Dirs, g.Home = append(g.Dirs, dir), append(g.Home, hierarchies[i].dir)
		}
	}
	if len(g.Dirs) > 0 {
		return g, nil
	}
	i := slices.IndexFunc(hierarchies, func(h hierarchy) bool { return h.unified })
	if i < 0 {
		return nil, errors.New("no control groups are mounted")
	}
	h := hierarchies[i]
	parent := filepath.Dir(h.dir)
	if h.dir == h.mount {
		parent = h.dir
	}
	return &Group{Version: 2, Dirs: []string{filepath.Join(parent, name)}, Home: []string{h.dir}}, nil
}

func controllers() []string { return []string{"cpu", "memory", "pids"} }

// Create makes the group with its limits. After an error it removes the group.
func (g *Group) Create(l Limits) (err error) {
	var made Group
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Remove())
		}
	}()
	if g.Version == 2 {
		parent := filepath.Dir(g.Dirs[0])
		if g.Controllers, err = enable(parent); err != nil {
			return err
		}
	}
	for _, dir := range g.Dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		made.Dirs = append(made.Dirs, dir)
	}
	for _, s := range g.settings(l) {
		if err := g.set(s); err != nil {
			return err
		}
	}
	return nil
}

// enable enables controllers for the children of a group of version 2, and returns the enabled ones.
func enable(dir string) ([]string, error) {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return nil, err
	}
	enabled := strings.Fields(string(have))
	if missing := subtract(controllers(), enabled); len(missing) > 0 {
		// The parent groups may have to enable them first. Settings that this user may not change stay unchanged.
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "cgroup.controllers")); err == nil {
			_, _ = enable(filepath.Dir(dir))
		}
		for _, controller := range missing {
			if err := write(dir, "cgroup.subtree_control", "+"+controller); err == nil {
				enabled = append(enabled, controller)
			}
		}
	}
	usable := subtract(controllers(), subtract(controllers(), enabled))
	if len(usable) == 0 {
		return nil, fmt.Errorf("no controller can be enabled in %s", dir)
	}
	return usable, nil
}

func subtract(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// setting is a value for a control file of a controller.
type setting struct {
	controller, file, value string
	// optional means that some kernels lack the file.
	optional bool
}

// settings returns the settings for the limits.
func (g *Group) settings(l Limits) []setting {
	const period = 100_000 // µs, the kernel's default
	quota := strconv.Itoa(int(l.CPU * period))
	memory, tasks := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Tasks)
	var all []setting
	if g.Version == 1 {
		all = []setting{
			{controller: "cpu", file: "cpu.cfs_period_us", value: strconv.Itoa(period)},
			{controller: "cpu", file: "cpu.cfs_quota_us", value: quota},
			{controller: "memory", file: "memory.limit_in_bytes", value: memory},
			{controller: "memory", file: "memory.memsw.limit_in_bytes", value: memory, optional: true},
			{controller: "pids", file: "pids.max", value: tasks},
		}
	} else {
		all = []setting{
			{controller: "cpu", file: "cpu.max", value: quota + " " + strconv.Itoa(period)},
			{controller: "memory", file: "memory.max", value: memory},
			{controller: "memory", file: "memory.swap.max", value: "0", optional: true},
			{controller: "memory", file: "memory.oom.group", value: "1", optional: true},
			{controller: "pids", file: "pids.max", value: tasks},
		}
	}
	unlimited := map[string]bool{"cpu": l.CPU == 0, "memory": l.Memory == 0, "pids": l.Tasks == 0}
	return slices.DeleteFunc(all, func(s setting) bool {
		return unlimited[s.controller] || !slices.Contains(g.Controllers, s.controller)
	})
}

func (g *Group) set(s setting) error {
	for _, dir := range g.Dirs {
		err := write(dir, s.file, s.value)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it belongs to another hierarchy
		}
		if s.optional {
			return nil
		}
		return err
	}
	if s.optional {
		return nil
	}
	return fmt.Errorf("no %s in %s", s.file, strings.Join(g.Dirs, ", "))
}

// Try makes a group with limits, enters it as a sandbox's supervisor does, and removes it. It returns the controllers
// that accepted their limits. The error is the reason why no process can be limited.
func Try(name string, l Limits) (controllers []string, err error) {
	g, err := Find(name)
	if err != nil {
		return nil, err
	}
	if err := g.Create(l); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Remove()) }()
	if err := g.enterable(); err != nil {
		return nil, fmt.Errorf("no process can be moved into %s: %w", g.Dirs[0], err)
	}
	return g.Held(l)
}

// enterable returns an error if a child of this process cannot be in the group.
func (g *Group) enterable() error {
	if g.Version == 1 {
		done := make(chan error)
		go func() {
			// The thread stays locked, so that it ends with its goroutine: it may not be possible to move it back.
			runtime.LockOSThread()
			done <- g.Inside(func() error { return nil })
		}()
		return <-done
	}
	dir, err := os.Open(g.Dirs[0])
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	// clone3(2) enters the group before it looks for the program, so the error for a missing program proves the entry.
	attributes := &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	_, err = os.StartProcess("/dev/null/no-program", []string{"no-program"}, &os.ProcAttr{Sys: attributes})
	if errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

// Held returns the controllers whose limits the kernel reports for the group.
func (g *Group) Held(l Limits) ([]string, error) {
	// A controller is held if each of its required settings reads back as written.
	var held, lost []string
	var first error
	for _, s := range g.settings(l) {
		if s.optional {
			continue
		}
		err := g.holds(s)
		switch {
		case err == nil && !slices.Contains(held, s.controller):
			held = append(held, s.controller)
		case err != nil:
			lost = append(lost, s.controller)
			first = cmp.Or(first, err)
		}
	}
	held = subtract(held, lost)
	if len(held) == 0 && first != nil {
		return nil, first
	}
	return held, nil
}

// holds compares one setting with the group's file.
func (g *Group) holds(s setting) error {
	for _, dir := range g.Dirs {
		text, err := os.ReadFile(filepath.Join(dir, s.file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it belongs to another hierarchy
		}
		if err != nil {
			return err
		}
		if have := strings.TrimSpace(string(text)); !same(have, s.value) {
			return fmt.Errorf("%s in %s is %s, not %s", s.file, dir, have, s.value)
		}
		return nil
	}
	return fmt.Errorf("no %s in %s", s.file, strings.Join(g.Dirs, ", "))
}

// same compares a setting that the kernel reports with the written value. The kernel rounds memory down to whole pages.
func same(have, want string) bool {
	bytes, err := strconv.ParseInt(want, 10, 64)
	return have == want || err == nil && have == strconv.FormatInt(bytes-bytes%int64(os.Getpagesize()), 10)
}

// Inside calls start while the calling thread is in a group of version 1. Processes that start starts are in the group,
// too. The caller has locked the thread to its goroutine. A thread that moves itself does so at once; a move of a
// process waits for an RCU grace period.
func (g *Group) Inside(start func() error) (err error) {
	defer func() {
		for _, dir := range g.Home {
			err = errors.Join(err, write(dir, "tasks", "0"))
		}
	}()
	for _, dir := range g.Dirs {
		if err := write(dir, "tasks", "0"); err != nil {
			return err
		}
	}
	return start()
}

// Empty returns the directories of this user's empty control groups whose names begin with prefix. They had no process
// and no child for at least age.
func Empty(prefix string, age time.Duration) []string {
	own, ownErr := os.ReadFile("/proc/self/cgroup")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if ownErr != nil || err != nil {
		return nil
	}
	var found []string
	for _, h := range parse(string(own), string(mounts)) {
		_ = filepath.WalkDir(h.mount, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return filepath.SkipDir // it is gone, or another user's
			case entry.IsDir() && strings.HasPrefix(entry.Name(), prefix):
				if empty(path, age) {
					found = append(found, path)
				}
				return filepath.SkipDir
			}
			return nil
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// empty reports whether a directory is an empty control group of this user, unchanged for at least age.
func empty(dir string, age time.Duration) bool {
	info, err := os.Lstat(dir)
	if err != nil || time.Since(info.ModTime()) < age {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Geteuid() || stat.Nlink > 2 { // a directory has a link for each child
		return false
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err == nil && len(text) == 0
}

// Check returns an error unless every directory is a control group of the kernel whose name ends with suffix. The
// caller must check a group from a file before it kills its processes or removes it: the file may be forged.
func (g *Group) Check(suffix string) error {
	for _, dir := range g.Dirs {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || !strings.HasSuffix(filepath.Base(dir), suffix) {
			return fmt.Errorf("%q is not a control group of %s", dir, strings.TrimPrefix(suffix, "-"))
		}
		var info unix.Statfs_t
		err := unix.Statfs(filepath.Dir(dir), &info)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went with its parent
		}
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if info.Type != unix.CGROUP_SUPER_MAGIC && info.Type != unix.CGROUP2_SUPER_MAGIC {
			return fmt.Errorf("%s is not among the control groups", dir)
		}
		if link, err := os.Lstat(dir); err == nil && !link.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
	}
	return nil
}

// Processes returns the processes in the group, or none if there is no group.
func (g *Group) Processes() []int {
	var found []int
	for _, dir := range g.Dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			// 0 is a process that this PID namespace does not show.
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && !slices.Contains(found, pid) {
				found = append(found, pid)
			}
		}
	}
	return found
}

// removeTimeout bounds the time of killed processes to leave a group.
const removeTimeout = 2 * time.Second

// Remove removes the group, as far as it exists. Its processes must have ended, or be ending.
func (g *Group) Remove() error {
	var errs []error
	deadline := time.Now().Add(removeTimeout)
	for _, dir := range g.Dirs {
		for {
			err := unix.Rmdir(dir)
			if errors.Is(err, unix.EBUSY) && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond) // version 1 has no event for that
				continue
			}
			// A read-only file system refuses the removal of a directory that does not exist, too.
			if _, missing := os.Lstat(dir); err != nil && !errors.Is(missing, fs.ErrNotExist) {
				errs = append(errs, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
			}
			break
		}
	}
	return errors.Join(errs...)
}

// write sets an existing control file.
func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
