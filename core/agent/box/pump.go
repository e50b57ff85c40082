//go:build linux

package box

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/pipes"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// outputChunk is how much one frame of output holds.
const outputChunk = 256 << 10

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
			for left := pipes.Size; left > 0; left -= n {
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

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
