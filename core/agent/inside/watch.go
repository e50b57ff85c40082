//go:build linux

package inside

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/guest"
)

// watched is the mask of events for inotify(7).
const watched = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// otherHalf is the wait for the second event of a move, in milliseconds. The kernel reports both events one after the
// other.
const otherHalf = 20

// runWatch reports changes below a path. It returns 0 when its time is over or its input ends.
func runWatch(args []string, stdin, stdout, stderr *os.File) int {
	var request guest.Watch
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &request) != nil || !filepath.IsAbs(request.Path) {
		_, _ = io.WriteString(stderr, "sb-guest watch needs one request\n")
		return exitUsage
	}
	w, err := newWatcher(request, stdout)
	if err == nil {
		defer func() { _ = w.file.Close() }()
		err = w.run(stdin)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

type watcher struct {
	request guest.Watch
	out     *json.Encoder
	file    *os.File
	// names are the watched paths by inotify's numbers.
	names map[int32]string
	// left is a file that moved away and has not reappeared; "" means none.
	left   string
	cookie uint32
}

func newWatcher(request guest.Watch, out io.Writer) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		request: request, out: json.NewEncoder(out), file: os.NewFile(uintptr(fd), "inotify"), names: map[int32]string{},
	}
	if err := w.add(filepath.Clean(request.Path)); err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	if request.Recursive {
		err = w.below(request.Path, nil)
	}
	return w, err
}

func (w *watcher) add(path string) error {
	number, err := unix.InotifyAddWatch(int(w.file.Fd()), path, watched)
	if err != nil {
		return &fs.PathError{Op: "watch", Path: path, Err: err}
	}
	w.names[int32(number)] = path //nolint:gosec // inotify's numbers fit
	return nil
}

// below watches the directories below one, and calls found for all that is there.
func (w *watcher) below(dir string, found func(path string) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it went away
		}
		if path != dir {
			if found != nil {
				if err := found(path); err != nil {
					return err
				}
			}
			if entry.IsDir() {
				if err := w.add(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		return nil
	})
}

// run reads events until the input ends.
func (w *watcher) run(stdin *os.File) error {
	var deadline time.Time
	if w.request.Seconds != nil {
		deadline = time.Now().Add(time.Duration(*w.request.Seconds) * time.Second)
	}
	//nolint:gosec // descriptors
	polls := []unix.PollFd{{Fd: int32(w.file.Fd()), Events: unix.POLLIN}, {Fd: int32(stdin.Fd()), Events: unix.POLLIN}}
	buffer := make([]byte, 64<<10)
	for {
		wait := -1
		if !deadline.IsZero() {
			wait = max(0, int(time.Until(deadline).Milliseconds()))
		}
		if w.left != "" {
			wait = otherHalf
		}
		n, err := unix.Poll(polls, wait)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0 && w.left != "":
			if err := w.flush(); err != nil {
				return err
			}
			continue
		case n == 0:
			return nil
		}
		if polls[0].Revents != 0 {
			n, err := unix.Read(int(w.file.Fd()), buffer)
			if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				return err
			}
			if err := w.events(buffer[:max(n, 0)]); err != nil {
				return err
			}
		}
		if polls[1].Revents != 0 {
			if n, err := unix.Read(int(stdin.Fd()), buffer[:1]); n == 0 || err != nil {
				return nil //nolint:nilerr // the reader is gone
			}
		}
	}
}

// events parses events of inotify: inotify(7), struct inotify_event.
func (w *watcher) events(data []byte) error {
	for len(data) >= unix.SizeofInotifyEvent {
		number := int32(binary.NativeEndian.Uint32(data)) //nolint:gosec // inotify's numbers fit
		mask, cookie := binary.NativeEndian.Uint32(data[4:]), binary.NativeEndian.Uint32(data[8:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(data[12:]))
		path, known := w.names[number]
		if name := bytes.TrimRight(data[unix.SizeofInotifyEvent:end], "\x00"); len(name) > 0 {
			path = filepath.Join(path, string(name))
		}
		data = data[end:]
		if !known {
			continue // an event of a directory that is no longer watched
		}
		if err := w.event(path, number, mask, cookie); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) event(path string, number int32, mask, cookie uint32) error {
	if w.left != "" && mask&unix.IN_MOVED_TO != 0 && cookie == w.cookie {
		from := w.left
		w.left = ""
		if err := w.report(guest.WatchRename, from, path); err != nil {
			return err
		}
		return w.came(path, mask, false)
	}
	if err := w.flush(); err != nil {
		return err
	}
	switch {
	case mask&unix.IN_IGNORED != 0:
		delete(w.names, number)
	case mask&unix.IN_CREATE != 0:
		if err := w.report(guest.WatchCreate, path); err != nil {
			return err
		}
		return w.came(path, mask, true)
	case mask&unix.IN_MOVED_FROM != 0:
		w.left, w.cookie = path, cookie
	case mask&unix.IN_MOVED_TO != 0:
		if err := w.report(guest.WatchRenameTo, path); err != nil {
			return err
		}
		return w.came(path, mask, false)
	case mask&unix.IN_DELETE != 0, mask&unix.IN_DELETE_SELF != 0 && path == w.request.Path:
		return w.report(guest.WatchRemove, path)
	case mask&unix.IN_MOVE_SELF != 0 && path == w.request.Path:
		return w.report(guest.WatchRenameFrom, path)
	case mask&(unix.IN_MODIFY|unix.IN_ATTRIB) != 0:
		return w.report(guest.WatchModify, path)
	}
	return nil
}

// came watches a new directory. It reports the entries of a directory that was just created, since they may be older
// than the watch.
func (w *watcher) came(path string, mask uint32, report bool) error {
	if !w.request.Recursive || mask&unix.IN_ISDIR == 0 {
		return nil
	}
	if err := w.add(path); err != nil {
		return nil //nolint:nilerr // it went away again
	}
	var found func(string) error
	if report {
		found = func(path string) error { return w.report(guest.WatchCreate, path) }
	}
	return w.below(path, found)
}

// flush reports a file that moved to an unwatched place.
func (w *watcher) flush() error {
	if w.left == "" {
		return nil
	}
	path := w.left
	w.left = ""
	for number, name := range w.names {
		if name == path || strings.HasPrefix(name, path+"/") {
			_, _ = unix.InotifyRmWatch(int(w.file.Fd()), uint32(number)) //nolint:gosec // as inotify gave it
			delete(w.names, number)
		}
	}
	return w.report(guest.WatchRenameFrom, path)
}

func (w *watcher) report(kind string, paths ...string) error {
	if filter := w.request.Filter; filter != nil && !slices.Contains(*filter, kind) {
		return nil
	}
	return w.out.Encode(guest.WatchEvent{Type: kind, Paths: paths})
}
