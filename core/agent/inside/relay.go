//go:build linux

package inside

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// relay carries one output of a command from a pipe inside to a descriptor that leads outside. If that descriptor is
// dead, as in a copy of the sandbox, relay keeps the data until there is another one. Its reads and writes block a
// thread, because a wait in the runtime's poller would not survive such a copy.
type relay struct {
	from int

	mu      sync.Mutex
	changed *sync.Cond
	to      int   // -1 is none
	stale   []int // replaced; only run closes them, since it may be writing to one
	busy    bool
	over    bool
}

func newRelay(from, to int) *relay {
	r := &relay{from: from, to: to}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// run copies until every writer has closed the pipe, or the reader outside is gone. In that case the command's next
// write fails.
func (r *relay) run() {
	buffer := make([]byte, relayBuffer)
	for {
		// The relay counts as busy before data leaves the pipe: see flush.
		//nolint:gosec // a descriptor
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(r.from), Events: unix.POLLIN}}, -1); err != nil &&
			!errors.Is(err, unix.EINTR) {
			break
		}
		r.set(true)
		n, err := unix.Read(r.from, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 || !r.write(buffer[:n]) {
			break
		}
		r.set(false)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	_ = unix.Close(r.from)
	closeFDs(r.stale)
	if r.to >= 0 {
		_ = unix.Close(r.to)
	}
	r.changed.Broadcast()
}

func (r *relay) set(busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = busy
	r.changed.Broadcast()
}

// write forwards all of data. It returns false if the reader is gone.
func (r *relay) write(data []byte) bool {
	for len(data) > 0 {
		r.mu.Lock()
		for r.to < 0 {
			r.changed.Wait()
		}
		closeFDs(r.stale)
		r.stale = nil
		to := r.to
		r.mu.Unlock()
		n, err := unix.Write(to, data)
		data = data[max(n, 0):]
		switch {
		case err == nil, errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(to), Events: unix.POLLOUT}}, -1) //nolint:gosec // a descriptor
		case errors.Is(err, unix.EPIPE):
			return false
		default:
			r.drop(to)
		}
	}
	return true
}

// drop closes a descriptor that leads nowhere, unless it has been replaced already.
func (r *relay) drop(to int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to == to {
		_ = unix.Close(to)
		r.to = -1
	}
}

// redirect sends the output to another descriptor, which the relay then owns.
func (r *relay) redirect(to int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		_ = unix.Close(to)
		return
	}
	if r.to >= 0 {
		r.stale = append(r.stale, r.to)
	}
	r.to = to
	r.changed.Broadcast()
}

// flush waits until the pipe's current content is forwarded. It does not wait for background processes that hold the
// pipe open.
func (r *relay) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.over {
		waiting, err := unix.IoctlGetInt(r.from, unix.TIOCINQ)
		if err != nil || waiting == 0 && !r.busy {
			return
		}
		r.changed.Wait()
	}
}
