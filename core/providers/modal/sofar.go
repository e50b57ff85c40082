package modal

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/seed-0724f904/sb/core"
)

// Modal marks the end of an output stream only when its command ends. A pause proves nothing, because the link may
// stall. But the answer to a call arrives after all output that the server sent earlier on the same connection. So the
// output so far has been read when answers arrive without a backlog.
const (
	// pollPause is the time between two polls, in which the server can send. glancePause is the pause for Attach. If it is
	// too short, old output appears as new, and none is lost.
	pollPause   = time.Second
	glancePause = 200 * time.Millisecond
	// quietPolls is the number of consecutive polls without a backlog that end the read. Their pauses give the server time
	// to start sending.
	quietPolls = 3
	// pollBytes is the most bytes that may arrive during a poll. The answer has a few hundred. A backlog fills the link,
	// and brings a whole HTTP/2 frame (16 KiB) or more.
	pollBytes = 4 << 10
	// freshBytes is the most output between two polls that counts as new, not as backlog. Without it, the read of a
	// command that writes constantly would not end.
	freshBytes = 32 << 10
)

// soFar reads the output so far of a running command. If the command ends during the read, soFar reads to the end of
// the streams. Else it stops after quietPolls polls without a backlog, with a pause before each. opts.Notice reports
// that.
func (p *Provider) soFar(
	ctx context.Context, id string, opts core.LogOptions, pause time.Duration,
) iter.Seq[logItem] {
	return func(yield func(logItem) bool) {
		known, err := p.router(ctx, id, true)
		if err != nil {
			yield(logItem{err: err})
			return
		}
		streams := &meter{busy: 2} // stdout and stderr
		r, err := known.metered(streams)
		if err != nil {
			yield(logItem{err: err})
			return
		}
		defer r.close()
		reading, enough := context.WithCancel(ctx)
		records, stop := output(reading, func(
			ctx context.Context, stream core.Stream, silence time.Duration, items chan<- logItem,
		) {
			r.tailStream(ctx, opts.Exec, stream, silence, items)
		}, forever)
		var drained atomic.Bool
		var failure error
		polls := make(chan struct{})
		go func() {
			defer close(polls)
			var over bool
			if over, failure = r.drained(reading, opts.Exec, pause); over || failure != nil {
				drained.Store(over)
				enough()
			}
		}()
		defer func() {
			enough()
			stop()
			<-polls
		}()
		for item := range records {
			if !yield(item) || item.err != nil {
				return
			}
		}
		if !drained.Load() {
			enough() // both streams are at their end, or a poll failed
		}
		<-polls
		switch {
		case ctx.Err() != nil:
			yield(logItem{err: core.Wrap("modal.logs", id, ctx.Err())})
		case failure != nil && !errors.Is(failure, context.Canceled):
			yield(logItem{err: failure})
		case drained.Load() && opts.Notice != nil:
			opts.Notice(
				"the command still runs, and Modal does not mark the end of its output: this is the output received so far. " +
					"--follow shows the rest",
			)
		}
	}
}

// drained polls a command until its output so far has arrived. It returns false if the command has ended, because then
// the streams have an end.
func (r *router) drained(ctx context.Context, exec string, pause time.Duration) (bool, error) {
	for quiet, last := 0, r.meter.read(); quiet < quietPolls; {
		if err := sleep(ctx, pause); err != nil {
			return false, err
		}
		before := r.meter.read()
		reply, err := r.poll(ctx, exec)
		if err != nil || reply.HasExitStatus() {
			return false, err
		}
		after := r.meter.read()
		if before.idle() && after.idle() && before.dials == after.dials && after.wire-before.wire < pollBytes &&
			after.output-last.output < freshBytes {
			quiet++
		} else {
			quiet = 0
		}
		last = after
	}
	return true, nil
}

// meter counts the incoming traffic of a router. A nil meter counts nothing.
type meter struct {
	mu    sync.Mutex
	wire  int64 // received bytes of all kinds
	dials int   // connections made
	open  int   // connections that are open
	// output counts bytes of output. busy counts the readers that do not wait for more: their consumer is slow, or they
	// have no stream. A reader at the end of its stream is not busy.
	output int64
	busy   int
}

// reading is a meter at one moment.
type reading struct {
	wire, output      int64
	dials, open, busy int
}

// idle reports whether all readers wait for output on the connection of the polls. The server can request a second
// connection. An answer on one connection may overtake output on the other.
func (r reading) idle() bool { return r.busy == 0 && r.open == 1 }

func (m *meter) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reading{wire: m.wire, output: m.output, dials: m.dials, open: m.open, busy: m.busy}
}

// wait starts a wait for output.
func (m *meter) wait() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy--
}

// came ends a wait.
func (m *meter) came(bytes int, err error) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.output += int64(bytes)
	if !errors.Is(err, io.EOF) {
		m.busy++
	}
}

// meteredCredentials lets a meter count the incoming bytes of a connection, above TLS and behind any proxy.
type meteredCredentials struct {
	credentials.TransportCredentials
	meter *meter
}

func (c meteredCredentials) Clone() credentials.TransportCredentials {
	return meteredCredentials{c.TransportCredentials.Clone(), c.meter}
}

func (c meteredCredentials) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	c.meter.mu.Lock()
	defer c.meter.mu.Unlock()
	c.meter.dials, c.meter.open = c.meter.dials+1, c.meter.open+1
	return &meteredConn{Conn: conn, meter: c.meter}, info, nil
}

// meteredConn is a connection that a meter counts.
type meteredConn struct {
	net.Conn
	meter *meter
	once  sync.Once
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.meter.mu.Lock()
	defer c.meter.mu.Unlock()
	c.meter.wire += int64(n)
	return n, err
}

func (c *meteredConn) Close() error {
	c.once.Do(func() {
		c.meter.mu.Lock()
		defer c.meter.mu.Unlock()
		c.meter.open--
	})
	return c.Conn.Close()
}
