//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watcher records all new sandboxes, also those that exist only for a moment. A nil watcher watches nothing.
type watcher struct{ fd int }

// watch starts a watcher of the directory of the sandboxes.
func watch(dir string) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE); err != nil {
		return nil, errors.Join(&os.PathError{Op: "watch", Path: dir, Err: err}, unix.Close(fd))
	}
	return &watcher{fd}, nil
}

// ids returns the ids of the sandboxes that were made since the last call. The kernel queues at most 16384 events:
// inotify(7).
func (w *watcher) ids() (ids []string, err error) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.fd, buffer)
		if errors.Is(err, unix.EAGAIN) {
			return ids, nil
		}
		if err != nil {
			return ids, fmt.Errorf("inotify: %w", err)
		}
		for event := buffer[:n]; len(event) >= unix.SizeofInotifyEvent; {
			length := int(binary.NativeEndian.Uint32(event[12:])) // inotify_event.len
			event = event[unix.SizeofInotifyEvent:]
			ids = append(ids, string(bytes.TrimRight(event[:length], "\x00")))
			event = event[length:]
		}
	}
}

func (w *watcher) close() {
	if w != nil {
		_ = unix.Close(w.fd)
	}
}
