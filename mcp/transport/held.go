package transport

// Held describes the state of one session of the protocol before 2026-07-28.
type Held struct {
	// Sent counts the messages of all streams, including those of past calls that are still kept.
	Sent int64
	// PastCalls counts the ended calls whose messages a client can still read. Messages and Bytes are their size.
	PastCalls, Messages, Bytes int
}

// Sessions counts the sessions of the protocol before 2026-07-28.
func (w *Web) Sessions() int {
	w.legacy.mu.Lock()
	defer w.legacy.mu.Unlock()
	return len(w.legacy.sessions)
}

// Held returns the state of a session; ok is false if there is none.
func (w *Web) Held(session string) (held Held, ok bool) {
	w.legacy.mu.Lock()
	s := w.legacy.sessions[session]
	w.legacy.mu.Unlock()
	if s == nil {
		return Held{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range s.streams {
		sent, _, _ := stream.size()
		held.Sent += sent
	}
	held.PastCalls = len(s.past)
	for _, past := range s.past {
		_, messages, bytes := past.size()
		held.Messages, held.Bytes = held.Messages+messages, held.Bytes+bytes
	}
	return held, true
}
