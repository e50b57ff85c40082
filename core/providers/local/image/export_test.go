package image

import "time"

// Patient returns the store with short waits, for tests.
func Patient(s *Store) *Store {
	s.stall, s.delay = 500*time.Millisecond, time.Millisecond
	return s
}
