package tools

import "sync"

// steps has the progress of work that can outlast its call. It is safe for concurrent use.
type steps struct {
	mu   sync.Mutex
	step string
	// notify sends the progress to a call; nil while no call waits.
	notify func(step string)
}

// report records a step and sends it to the waiting call.
func (s *steps) report(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = step
	if s.notify != nil {
		s.notify(step)
	}
}

// attach sends the steps from now on to a call. With nil they are only recorded.
func (s *steps) attach(notify func(step string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = notify
}

// latest returns the newest step; empty before the first.
func (s *steps) latest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step
}
