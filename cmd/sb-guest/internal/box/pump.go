//go:build linux

package box

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/journal"
	"github.com/seed-0724f904/sb/core/providers/docker/wire"
)

const (
	// pipeSize is what a command's pipes hold.
	pipeSize = 1 << 20
	// outputChunk is how much one frame of output holds.
	outputChunk = 256 << 10
)

// pump carries one output of a command to the journal and to its client.
type pump struct {
	stream core.Stream
	from   *os.File
	output *journal.Output
	// drained is closed when nothing more is on its way to the client.
	drained chan struct{}
}

// carry copies until the stream's end. After the command's end, which stop tells by the
// stream's deadline, the client gets what is in the pipe, and the journal all that comes later from
// whatever in the background holds the stream open.
func (p *pump) carry(to *client) {
	defer func() { _ = p.from.Close() }()
	leave := sync.OnceFunc(func() {
		p.output.Settle(p.stream)
		close(p.drained)
	})
	defer leave()
	buffer := make([]byte, outputChunk)
	kind := byte(wire.FrameStdout)
	if p.stream == core.Stderr {
		kind = wire.FrameStderr
	}
	deliver := func(n int) {
		if n > 0 {
			p.output.Write(p.stream, buffer[:n])
			if to != nil && !to.send(kind, buffer[:n]) {
				to = nil
			}
		}
	}
	for {
		n, err := p.from.Read(buffer)
		deliver(n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			for left := pipeSize; left > 0; left -= n {
				if n = p.ready(buffer); n <= 0 {
					break
				}
				deliver(n)
			}
			to = nil
			leave()
			_ = p.from.SetReadDeadline(time.Time{})
			continue
		}
		if err != nil {
			return
		}
	}
}

// ready reads what is there, without waiting and whatever the deadline.
func (p *pump) ready(buffer []byte) int {
	n := 0
	raw, err := p.from.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buffer) })
	}
	return n
}

// pipes are a command's, in the order of its descriptors.
type pipes struct {
	theirs, ours []*os.File
	err          error
}

// input adds a pipe that the command reads.
func (p *pipes) input() *os.File { return p.add(false) }

// output adds a pipe that the command writes.
func (p *pipes) output() *os.File { return p.add(true) }

func (p *pipes) add(output bool) *os.File {
	if p.err != nil {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		p.err = err
		return nil
	}
	ours, theirs := w, r
	if output {
		ours, theirs = r, w
		if raw, err := r.SyscallConn(); err == nil {
			// Less room is slower, not wrong.
			_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
		}
	}
	p.ours, p.theirs = append(p.ours, ours), append(p.theirs, theirs)
	return ours
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
