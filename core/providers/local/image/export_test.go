package image

import (
	"context"
	"net"
	"time"
)

// Via lets all connections to registries go to an address, for tests of host names.
func Via(s *Store, address string) *Store {
	s.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	return s
}

// Patient returns the store with short waits, for tests.
func Patient(s *Store) *Store {
	s.stall, s.delay = 500*time.Millisecond, time.Millisecond
	return s
}
