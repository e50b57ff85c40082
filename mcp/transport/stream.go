package transport

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// stream holds the server's messages about one call, or those of no call. It keeps the newest ones, so that a slow or
// replacing connection gets the messages it missed. A connection that is far behind loses only the oldest. The zero
// value is empty; a stream is safe for concurrent use.
type stream struct {
	// number identifies the stream in its session.
	number int64

	mu        sync.Mutex
	kept      []event
	bytes     int
	last      int64 // the number of the newest message, from 1
	delivered int64 // the newest that a connection took
	ended     bool
	// reader is the number of the connection that reads; an older one has been superseded.
	reader int
	// changed is closed when there is a new message for a reader; nil while no reader waits.
	changed chan struct{}
}

type event struct {
	number  int64
	message json.RawMessage
}

// KeptMessages and KeptBytes bound one stream, and also all ended streams of a session together.
const (
	KeptMessages = 256
	KeptBytes    = 1 << 20
)

// send adds a message.
func (s *stream) send(message json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(message)
	s.wake()
}

// end adds the last message, if any, and ends the stream.
func (s *stream) end(last json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(last)
	s.ended = true
	s.wake()
}

func (s *stream) add(message json.RawMessage) {
	if message == nil {
		return
	}
	s.last++
	s.kept = append(s.kept, event{s.last, message})
	s.bytes += len(message)
	drop := 0
	for ; len(s.kept)-drop > 1 && (len(s.kept)-drop > KeptMessages || s.bytes > KeptBytes); drop++ {
		s.bytes -= len(s.kept[drop].message)
	}
	s.kept = slices.Delete(s.kept, 0, drop)
}

func (s *stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// attach starts a connection, which supersedes the previous one. delivered is the number of the newest message that any
// connection took.
func (s *stream) attach() (reader int, delivered int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader++
	s.wake()
	return s.reader, s.delivered
}

// after returns the kept messages after a number. more is closed when further messages may be available. It is nil if
// none follow: the stream has ended, or another connection replaced this one.
func (s *stream) after(reader int, number int64) (events []event, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reader != s.reader {
		return nil, nil
	}
	for i, e := range s.kept {
		if e.number > number {
			events, s.delivered = slices.Clone(s.kept[i:]), s.last
			break
		}
	}
	if s.ended {
		return events, nil
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return events, s.changed
}

// size returns the number of sent messages, the number of kept ones, and their bytes.
func (s *stream) size() (sent int64, messages, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, len(s.kept), s.bytes
}

// eventID names a message in its session.
func eventID(stream, message int64) string { return fmt.Sprintf("%d-%d", stream, message) }

// parseEventID is the inverse of eventID.
func parseEventID(id string) (stream, message int64, ok bool) {
	_, err := fmt.Sscanf(id, "%d-%d", &stream, &message)
	return stream, message, err == nil && id == eventID(stream, message)
}
