package tools

import (
	"os"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// maxQueued bounds a command's unread input, in bytes.
const maxQueued = 64 << 20

// input carries a command's stdin. A sender never waits for a command that does not read.
type input struct {
	pipe *os.File
	more chan struct{} // has room for one
	done chan struct{} // closed when the pipe is

	mu     sync.Mutex
	queue  []byte
	queued int // bytes of queue and of the write under way
	last   bool
	closed bool
}

// newInput returns an input and the read end for the command. The caller closes that end and runs carry.
func newInput() (*input, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, core.Errorf(core.KindExhausted, "exec", "", "no pipe for stdin: %w", err)
	}
	return &input{pipe: w, more: make(chan struct{}, 1), done: make(chan struct{})}, r, nil
}

// send queues text for the command. With last, the stdin ends after the text. It never waits for the command.
func (i *input) send(text string, last bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last || i.closed {
		return core.Errorf(core.KindConflict, "exec", "", "the command's stdin is closed").
			WithHint("start it with keep_stdin_open: true to send input later")
	}
	if i.queued+len(text) > maxQueued {
		return core.Errorf(core.KindExhausted, "exec", "", "the command has not read %d bytes of its stdin yet", i.queued).
			WithHint("send more when it reads, or write a file with file_write")
	}
	i.queue, i.queued, i.last = append(i.queue, text...), i.queued+len(text), last
	select {
	case i.more <- struct{}{}:
	default:
	}
	return nil
}

// carry writes the queued input until the last of it, or until Close.
func (i *input) carry() {
	defer i.Close()
	for {
		i.mu.Lock()
		data, last := i.queue, i.last
		i.queue = nil
		i.mu.Unlock()
		if len(data) > 0 {
			if _, err := i.pipe.Write(data); err != nil {
				return // the command no longer reads
			}
			i.mu.Lock()
			i.queued -= len(data)
			i.mu.Unlock()
			continue
		}
		if last {
			return
		}
		select {
		case <-i.more:
		case <-i.done:
			return
		}
	}
}

// Close closes the stdin, even with unread input.
func (i *input) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.closed = true
		close(i.done)
		_ = i.pipe.Close()
	}
}
