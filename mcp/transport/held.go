package transport

// Held is what the server keeps for one session of the protocol before 2026-07-28.
type Held struct {
	// Sent counts the messages of all streams, and those of past calls, that are still kept.
	Sent int64
	// PastCalls have ended. A client can still read their Messages, of Bytes in all.
	PastCalls, Messages, Bytes int
}

// Sessions counts the sessions of the protocol before 2026-07-28.
func (w *Web) Sessions() int {
	w.legacy.mu.Lock()
	defer w.legacy.mu.Unlock()
	return len(w.legacy.sessions)
}

// Held measures a session; ok is false when there is none.
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
