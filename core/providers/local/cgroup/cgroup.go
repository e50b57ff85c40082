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
	Memory int64   // bytes, of processes and what the kernel keeps for them
	Tasks  int     // processes and threads, as this machine's kernel counts them
}

// Group is a control group of one sandbox, or the set of them, one in each hierarchy of version 1.
type Group struct {
	Version int `json:"version"`
	// Dirs are the group's directories, in the order of Home.
	Dirs []string `json:"dirs"`
	// Home is where the process that made the group was itself.
	Home []string `json:"home"`
	// Controllers are what can be limited: some of "cpu", "memory" and "pids".
	Controllers []string `json:"controllers"`
}

// Find says where a group of that name would be: in version 1 below the calling process's own,
// in version 2 beside it, for a group with processes can have no children with limits.
// It makes nothing. The error says why there can be none.
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

// Create makes the group with its limits. When it fails nothing that it made is left.
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

// enable lets the children of a group of version 2 be limited, and returns in what.
func enable(dir string) ([]string, error) {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return nil, err
	}
	enabled := strings.Fields(string(have))
	if missing := subtract(controllers(), enabled); len(missing) > 0 {
		// The parent groups may have to pass them on first. Settings that this user may not change stay as they are.
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
	// optional ones are lacking in some kernels.
	optional bool
}

// settings says what to write for the limits.
func (g *Group) settings(l Limits) []setting {
	const period = 100_000 // µs, the kernel's own choice
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
// that took their limits. The error says why no process can be bounded.
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

// enterable reports whether a process that this one starts may be in the group.
func (g *Group) enterable() error {
	if g.Version == 1 {
		done := make(chan error)
		go func() {
			// Never unlocked: a thread that cannot be moved back ends with its goroutine.
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
	// clone3(2) enters the group before the program is looked for, so the lack of the program proves that it could.
	attributes := &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	_, err = os.StartProcess("/dev/null/no-program", []string{"no-program"}, &os.ProcAttr{Sys: attributes})
	if errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

// Held returns the controllers whose limits the group has, as the kernel tells them.
func (g *Group) Held(l Limits) ([]string, error) {
	// A controller is held if each setting that it must have reads as it was written.
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

// same compares a setting as the kernel tells it with what was written: memory is rounded down to whole pages.
func same(have, want string) bool {
	bytes, err := strconv.ParseInt(want, 10, 64)
	return have == want || err == nil && have == strconv.FormatInt(bytes-bytes%int64(os.Getpagesize()), 10)
}

// Inside calls start on the calling thread, which is locked to its goroutine, while the thread is in a
// group of version 1; what start starts is in the group, too. The kernel moves a thread
// that asks for itself at once, while for a process it waits for an RCU grace period.
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

// Empty lists the directories of control groups that this user has made, whose names begin with prefix, and that had no
// process and no child for at least age.
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

// empty reports whether a directory is an empty control group of this user that is older than age.
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

// Check returns an error unless every directory is of the kernel's control groups and its name ends with suffix. A
// group that was read from a file is checked before its processes are killed and it is removed: the file may be forged.
func (g *Group) Check(suffix string) error {
	for _, dir := range g.Dirs {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || !strings.HasSuffix(filepath.Base(dir), suffix) {
			return fmt.Errorf("%q is no control group of %s", dir, strings.TrimPrefix(suffix, "-"))
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

// Processes returns the processes in the group; none if there is no group.
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

// removeTimeout is how long processes that were killed have to leave a group.
const removeTimeout = 2 * time.Second

// Remove removes the group, as far as it exists. Its processes must have ended, or be ending.
func (g *Group) Remove() error {
	var errs []error
	deadline := time.Now().Add(removeTimeout)
	for _, dir := range g.Dirs {
		for {
			err := unix.Rmdir(dir)
			if errors.Is(err, unix.EBUSY) && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond) // version 1 has no event for it
				continue
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
			}
			break
		}
	}
	return errors.Join(errs...)
}

// write sets a control file, which exists.
func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
