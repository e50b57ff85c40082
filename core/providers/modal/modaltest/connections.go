package modaltest

import (
	"errors"
	"net"
	"sync"
)

// connections is a listener that knows what it has accepted.
type connections struct {
	net.Listener

	mu   sync.Mutex
	open map[*client]struct{}
}

// client is a connection; it is forgotten when it closes.
type client struct {
	net.Conn
	from *connections
}

func (l *connections) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &client{accepted, l}
	l.open[c] = struct{}{}
	return c, nil
}

func (c *client) Close() error {
	c.from.mu.Lock()
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
