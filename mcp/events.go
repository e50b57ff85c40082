package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/server"
)

// boundedEvents keeps the last messages of each session, so that a client whose connection broke is told what it
// missed. mcp-go's own store keeps all for as long as the session lives.
type boundedEvents struct {
	mu       sync.Mutex
	next     int64
	sessions map[string]*sessionEvents
}

type sessionEvents struct {
	events []keptEvent
	bytes  int
}

type keptEvent struct {
	id      int64
	stream  string
	message json.RawMessage
}

// What is kept of one session.
const (
	keptMessages = 256
	keptBytes    = 1 << 20
)

func newBoundedEvents() *boundedEvents { return &boundedEvents{sessions: map[string]*sessionEvents{}} }

// StoreEvent implements server.EventStore.
func (b *boundedEvents) StoreEvent(_ context.Context, session, stream string, message json.RawMessage) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	kept := b.sessions[session]
	if kept == nil {
		kept = &sessionEvents{}
		b.sessions[session] = kept
	}
	kept.events = append(kept.events, keptEvent{b.next, stream, bytes.Clone(message)})
	kept.bytes += len(message)
	drop := 0
	for len(kept.events)-drop > keptMessages || kept.bytes > keptBytes && len(kept.events)-drop > 1 {
		kept.bytes -= len(kept.events[drop].message)
		drop++
	}
	kept.events = slices.Delete(kept.events, 0, drop)
	return strconv.FormatInt(b.next, 10), nil
}

// ReplayEventsAfter implements server.EventStore.
func (b *boundedEvents) ReplayEventsAfter(_ context.Context, session, last string, send func(string, json.RawMessage) error) (string, error) {
	id, err := strconv.ParseInt(last, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%w: %s", server.ErrUnknownEventID, last)
	}
	b.mu.Lock()
	var events []keptEvent
	if kept := b.sessions[session]; kept != nil {
		events = slices.Clone(kept.events)
	}
	b.mu.Unlock()
	at := slices.IndexFunc(events, func(e keptEvent) bool { return e.id == id })
	if at < 0 {
		return "", fmt.Errorf("%w: %s", server.ErrUnknownEventID, last)
	}
	stream := events[at].stream
	for _, e := range events[at+1:] {
		if e.stream != stream {
			continue
		}
		if err := send(strconv.FormatInt(e.id, 10), e.message); err != nil {
			return "", err
		}
	}
	return stream, nil
}

// PurgeSession implements server.EventStore.
func (b *boundedEvents) PurgeSession(_ context.Context, session string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, session)
	return nil
}
