package modaltest

import (
	"errors"
	"net"
	"sync"
	"time"
)

// connections is a listener that knows what it has accepted.
type connections struct {
	net.Listener

	faults *Faults

	mu   sync.Mutex
	open map[*client]struct{}
}

// client is a connection; it is forgotten when it closes.
type client struct {
	net.Conn
	from *connections
	// sent counts bytes. gRPC writes from one goroutine.
	sent int64
	gone chan struct{} // closed with the connection
}

// Write sends as fast as the faults' link carries.
func (c *client) Write(p []byte) (int, error) {
	before := c.sent
	n, err := c.Conn.Write(p)
	c.sent += int64(n)
	if wait := c.from.faults.onLink(before, int64(n)); wait > 0 && err == nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.gone:
		}
	}
	return n, err
}

func (l *connections) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &client{Conn: accepted, from: l, gone: make(chan struct{})}
	l.open[c] = struct{}{}
	return c, nil
}

func (c *client) Close() error {
	c.from.mu.Lock()
	if _, open := c.from.open[c]; open {
		close(c.gone)
	}
	delete(c.from.open, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// breakOff ends all connections in the middle of whatever they carry.
func (l *connections) breakOff() error {
	l.mu.Lock()
	var all []*client
	for c := range l.open {
		all = append(all, c)
	}
	l.mu.Unlock()
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Disconnect breaks off every connection that clients have, as a network does. They may come again at once.
func (s *Server) Disconnect() error { return s.listener.breakOff() }
