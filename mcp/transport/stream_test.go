package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

// The memory of a client that does not read is bounded. The client gets the newest messages when it reads.
func TestStreamIsBounded(t *testing.T) {
	var s stream
	reader, _ := s.attach()
	for i := range 3 * KeptMessages {
		s.send(json.RawMessage(fmt.Sprint(i + 1)))
	}
	s.end(json.RawMessage("0"))
	events, more := s.after(reader, 0)
	if len(events) != KeptMessages || more != nil || string(events[KeptMessages-1].message) != "0" ||
		events[0].number != 2*KeptMessages+2 {
		t.Errorf("%d messages are kept, from number %d", len(events), events[0].number)
	}
	large := bytes.Repeat([]byte("x"), KeptBytes/2)
	s = stream{}
	for range 5 {
		s.send(large)
	}
	if sent, messages, size := s.size(); sent != 5 || messages != 2 || size != KeptBytes {
		t.Errorf("of %d large messages %d are kept, %d bytes", sent, messages, size)
	}
	s.end(bytes.Repeat(large, 3))
	if sent, messages, size := s.size(); sent != 6 || messages != 1 || size != 3*len(large) {
		t.Errorf("beside one that is too large %d of %d are kept, %d bytes", messages, sent, size)
	}
}

// The memory of all past calls of a session is bounded, too. The newest call is kept whatever its size.
func TestPastCallsAreBounded(t *testing.T) {
	s := &webSession{streams: map[int64]*stream{}}
	past := func(messages int, size int) {
		s.calls++
		out := &stream{number: s.calls}
		s.streams[out.number] = out
		for range messages {
			out.send(bytes.Repeat([]byte("x"), size))
		}
		out.end(nil)
		s.Keep(out)
	}
	for range 1000 {
		past(1, 10)
	}
	if len(s.streams) != 0 {
		t.Errorf("%d calls without a resumable event are kept", len(s.streams))
	}
	for range 1000 {
		past(4, 10)
	}
	if len(s.streams) != KeptMessages/4 || len(s.past) != len(s.streams) {
		t.Errorf("%d of small calls are kept", len(s.streams))
	}
	for range 10 {
		past(2, KeptBytes/8)
	}
	if len(s.streams) != 4 {
		t.Errorf("%d of large calls are kept", len(s.streams))
	}
	past(2, 2*KeptBytes)
	if out, _ := s.Find(eventID(s.calls, 1)); out == nil || len(s.streams) != 1 {
		t.Errorf("of a call that is too large %v is kept", s.streams)
	}
}
