//go:build linux

package supervisor

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// streams are a client's descriptors. A descriptor that the client did not send is nil.
type streams struct{ stdin, stdout, stderr *os.File }

// announced maps a client's descriptors to the streams in its request: stdin, stdout, stderr, in this order.
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

// feed copies a client's stdin to the command. With last its end is the end of the command's stdin. A nil client is an
// empty stdin.
func (s *Supervisor) feed(c *command.Command, client *os.File, last bool) {
	if client == nil {
		if last {
			c.CloseStdin()
		}
		return
	}
	to := c.Stdin()
	if to == nil {
		_ = client.Close()
		return
	}
	s.wg.Go(func() {
		ended := make(chan struct{})
		s.wg.Go(func() {
			// After the command's end a pending read from a terminal would swallow the user's next input.
			select {
			case <-c.Done():
				_ = client.SetReadDeadline(time.Now())
			case <-ended:
			}
		})
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{client}, make([]byte, 64<<10))
		close(ended)
		_ = client.Close()
		if last && !errors.Is(err, os.ErrDeadlineExceeded) { // a command keeps running without its client
			c.CloseStdin()
		}
	})
}

// outputs makes a client's descriptors the outputs of a command. broken receives the streams whose reader is gone.
func (f streams) outputs(broken chan<- core.Stream) *command.Client {
	client := &command.Client{Broken: func(stream core.Stream) { broken <- stream }}
	if f.stdout != nil {
		client.Stdout = f.stdout
	}
	if f.stderr != nil {
		client.Stderr = f.stderr
	}
	return client
}

// abandon releases the descriptors of a client that has disconnected. The reader of an output sees its end, and the
// command does not read the user's next input.
func (f streams) abandon() {
	if f.stdin != nil && isTerminal(f.stdin) {
		_ = f.stdin.SetReadDeadline(time.Now()) // it may be closed
	}
	for _, output := range []*os.File{f.stdout, f.stderr} {
		if output != nil {
			_ = output.Close()
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
