package tools

import (
	"os"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// maxQueued bounds the input of one command that it has not read yet.
const maxQueued = 64 << 20

// input carries a command's stdin. A sender never waits for a command that does not read.
type input struct {
	pipe *os.File
	more chan struct{} // has room for one
	done chan struct{} // closed when the pipe is

	mu     sync.Mutex
	queue  []byte
	queued int // bytes of queue and of what is being written
	last   bool
	closed bool
}

// newInput makes an input and the end that the command reads, which the caller closes. The caller runs carry.
func newInput() (*input, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, core.Errorf(core.KindExhausted, "exec", "", "no pipe for stdin: %w", err)
	}
	return &input{pipe: w, more: make(chan struct{}, 1), done: make(chan struct{})}, r, nil
}

// send takes text for the command and, with last, ends its stdin. It never waits for the command.
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

// carry writes what is sent until the last of it, or close.
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

// Close ends the stdin, whatever was sent and not read.
func (i *input) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.closed = true
		close(i.done)
		_ = i.pipe.Close()
	}
}
