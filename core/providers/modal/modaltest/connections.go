package modaltest

import (
	"errors"
	"net"
	"sync"
	"time"
)

// connections is a listener that records its accepted connections.
type connections struct {
	net.Listener

	faults *Faults

	mu   sync.Mutex
	open map[*client]struct{}
}

// client is a connection; its close removes the record.
type client struct {
	net.Conn
	from *connections
	// sent counts bytes. It needs no lock, because gRPC writes from one goroutine.
	sent int64
	gone chan struct{} // closed with the connection
}

// Write sends at the rate of the faults' link.
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

// breakOff closes all connections immediately, even in the middle of a message.
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

// Disconnect closes all connections of clients, like a network failure. Clients can reconnect at once.
func (s *Server) Disconnect() error { return s.listener.breakOff() }
