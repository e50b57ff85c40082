//go:build linux

package command

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/pipes"
)

// outputChunk is how much one read of a command's output takes.
const outputChunk = 256 << 10

// pump carries one output of a command to the journal and to its client.
type pump struct {
	stream core.Stream
	from   *os.File
	output *journal.Output
	client *Client
	to     io.WriteCloser // the client's, or nil
	// drained is closed after the client has received all output.
	drained chan struct{}
}

func newPump(stream core.Stream, from *os.File, output *journal.Output, client *Client) *pump {
	return &pump{
		stream: stream, from: from, output: output, client: client, to: client.to(stream), drained: make(chan struct{}),
	}
}

// carry copies until the stream's end. The stream's deadline means that the command has ended. The client gets the rest
// of the pipe. The journal also gets later output of background processes.
func (p *pump) carry() {
	defer func() { _ = p.from.Close() }()
	leave := sync.OnceFunc(func() {
		p.output.Settle(p.stream)
		if p.to != nil {
			_ = p.to.Close()
		}
		close(p.drained)
	})
	defer leave()
	buffer := make([]byte, outputChunk)
	writing := p.to != nil
	deliver := func(data []byte) {
		p.output.Write(p.stream, data)
		if !writing {
			return
		}
		if _, err := p.to.Write(data); err != nil {
			writing = false
			p.client.reportBroken(p.stream, err)
		}
	}
	for {
		n, err := p.from.Read(buffer)
		if n > 0 {
			deliver(buffer[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			for left := pipes.Size; left > 0; left -= n {
				if n = p.ready(buffer); n <= 0 {
					break
				}
				deliver(buffer[:n])
			}
			leave()
			writing = false
			_ = p.from.SetReadDeadline(time.Time{})
			continue
		}
		if err != nil {
			return
		}
	}
}

// ready reads the pipe's content without waiting, even after the deadline. It returns 0 or less if the pipe is empty.
func (p *pump) ready(buffer []byte) int {
	n := 0
	raw, err := p.from.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), buffer); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return n
}
