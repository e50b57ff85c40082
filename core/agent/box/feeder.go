//go:build linux

package box

import (
	"os"
	"sync"

	"github.com/seed-0724f904/sb/core/agent/wire"
)

// feeder passes stdin frames to a command in a separate goroutine, so the reader of the frames never waits for the
// command. wire.StdinWindow bounds the queue.
type feeder struct {
	mu    sync.Mutex
	more  *sync.Cond
	queue [][]byte
	ended bool
}

func newFeeder() *feeder {
	f := &feeder{}
	f.more = sync.NewCond(&f.mu)
	return f
}

// add queues a copy of data.
func (f *feeder) add(data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, append([]byte(nil), data...))
	f.more.Signal()
}

// end marks the end of the input.
func (f *feeder) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.more.Signal()
}

// run writes the queued input until its end. It discards input that the command no longer reads.
func (f *feeder) run(stdin func() *os.File, from *client) {
	for {
		f.mu.Lock()
		for len(f.queue) == 0 && !f.ended {
			f.more.Wait()
		}
		if len(f.queue) == 0 {
			f.mu.Unlock()
			return
		}
		data := f.queue[0]
		f.queue = f.queue[1:]
		f.mu.Unlock()
		if to := stdin(); to != nil {
			_, _ = to.Write(data)
		}
		from.send(wire.FrameStdinAck, wire.AppendStdinAck(nil, len(data)))
	}
}
