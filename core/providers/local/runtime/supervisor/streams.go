//go:build linux

package supervisor

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/wire"
)

const (
	// copyBuffer is how much one read takes.
	copyBuffer = 256 << 10
	// drainGrace is how long output may still be on its way after its command ended;
	// the sandbox's kernel has it in the pipe by then.
	drainGrace = 20 * time.Millisecond
)

// streams are a client's descriptors; nil is one that it did not send.
type streams struct{ stdin, stdout, stderr *os.File }

// announced gives a client's descriptors the names that its request announces them by, in this order.
func announced(request *wire.Command, clients []*os.File) streams {
	var named streams
	for _, f := range []struct {
		there bool
		file  **os.File
	}{{request.Stdin, &named.stdin}, {request.Stdout, &named.stdout}, {request.Stderr, &named.stderr}} {
		if f.there && len(clients) > 0 {
			*f.file, clients = clients[0], clients[1:]
		}
	}
	return named
}

// pump carries one output of a command to its client and the journal.
type pump struct {
	stream core.Stream
	from   *os.File
	client *os.File
	// drained is closed when nothing more is on its way to the client.
	drained chan struct{}
}

// feed carries a client's stdin to the command; with last the command sees its end.
// A nil client is an empty stdin.
func (c *command) feed(client *os.File, last bool) {
	if client == nil {
		if last {
			c.closeStdin()
		}
		return
	}
	c.mu.Lock()
	to := c.stdin
	c.mu.Unlock()
	if to == nil {
		_ = client.Close()
		return
	}
	c.s.wg.Go(func() {
		ended := make(chan struct{})
		c.s.wg.Go(func() {
			// A read from a terminal that nobody needs any more would swallow what is
			// typed next.
			select {
			case <-c.done:
				_ = client.SetReadDeadline(time.Now())
			case <-ended:
			}
		})
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{client}, make([]byte, 64<<10))
		close(ended)
		_ = client.Close()
		if last && !errors.Is(err, os.ErrDeadlineExceeded) { // a command whose client has left goes on
			c.closeStdin()
		}
	})
}

func (c *command) closeStdin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil {
		_ = c.stdin.Close()
		c.stdin = nil
	}
}

// carry copies one output until its end. After the command's end it goes on for the
// journal alone, as long as something in the background holds the stream open.
func (c *command) carry(p *pump) {
	defer func() { _ = p.from.Close() }()
	leave := sync.OnceFunc(func() {
		c.output.Settle(p.stream)
		if p.client != nil {
			_ = p.client.Close()
		}
		close(p.drained)
	})
	defer leave()
	buffer := make([]byte, copyBuffer)
	writing := p.client != nil
	read := p.from.Read
	for {
		n, err := read(buffer)
		if n > 0 {
			c.output.Write(p.stream, buffer[:n])
			if writing {
				if _, err := p.client.Write(buffer[:n]); err != nil {
					writing = false
					if !errors.Is(err, os.ErrClosed) { // closed here: the client has left, and the command goes on
						c.broken <- p.stream
					}
				}
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// On a busy machine the deadline can pass before the first read: what the pipe
			// holds by now is still the command's output.
			_ = p.from.SetReadDeadline(time.Time{})
			read = func(b []byte) (int, error) { return readNow(p.from, b) }
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			leave()
			writing = false
			read = p.from.Read
			continue
		}
		if err != nil {
			return
		}
	}
}

// readNow reads what a pipe holds; unix.EAGAIN when that is nothing.
func readNow(f *os.File, b []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	rawErr := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = unix.Read(int(fd), b); !errors.Is(err, unix.EINTR) {
				return true
			}
		}
	})
	switch {
	case rawErr != nil:
		return 0, rawErr
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// closeOutput lets the command know that nobody reads a stream: its next write there fails.
func (c *command) closeOutput(stream core.Stream) {
	for _, p := range c.pumps {
		if p.stream == stream {
			_ = p.from.Close()
		}
	}
}

// abandonClient lets go of the descriptors of a client that has left: whoever reads
// the other end must see its end, and what is typed next on its keyboard, nil for none, is somebody else's.
func (c *command) abandonClient(keyboard *os.File) {
	if keyboard != nil {
		_ = keyboard.SetReadDeadline(time.Now()) // it may be closed
	}
	for _, p := range c.pumps {
		if p.client != nil {
			_ = p.client.Close()
		}
	}
}
