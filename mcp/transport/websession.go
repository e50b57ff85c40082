package transport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/auth"
)

// webSession is a session of a client of legacyHTTP. It ends when the client deletes it, or after a lease without a
// request.
type webSession struct {
	legacy *legacyHTTP
	peer   *peer
	// owner is the only permitted user of the session.
	owner  string
	ctx    context.Context //nolint:containedctx // calls outlive their request
	cancel context.CancelFunc
	// closed is closed when the session ends; calls under way still belong to it.
	closed chan struct{}
	// none is the stream of the messages of no call.
	none *stream

	mu    sync.Mutex
	ended bool
	// requests is the number of requests under way. left is the time at which the last one ended. idle ends the session a
	// lease later.
	requests int
	left     time.Time
	idle     *time.Timer
	// streams has the stream none, and those of calls under way and of past calls.
	streams map[int64]*stream
	calls   int64
	past    []*stream // oldest first
}

// begin starts a session for a request, which calls Leave.
func (l *legacyHTTP) begin(ctx context.Context, identity auth.Identity) (*webSession, error) {
	s := &webSession{
		legacy: l, peer: newPeer(rand.Text()), owner: auth.OwnerKey(identity), closed: make(chan struct{}), none: &stream{},
		requests: 1,
	}
	s.streams = map[int64]*stream{s.none.number: s.none}
	s.ctx, s.cancel = context.WithCancel(l.endpoint.Context)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		s.cancel()
		return nil, core.Errorf(core.KindUnavailable, "mcp", "", "the server is stopping")
	}
	if err := l.endpoint.Protocol.RegisterSession(ctx, s.peer.own); err != nil {
		s.cancel()
		return nil, err
	}
	s.idle = time.AfterFunc(l.endpoint.Lease, s.expire)
	l.sessions[s.peer.id] = s
	l.endpoint.Go(func() {
		s.peer.own.deliver(s.closed, func(message any) { s.none.send(l.endpoint.encode(s.ctx, message)) })
		s.none.end(nil)
		l.mu.Lock()
		delete(l.sessions, s.peer.id)
		l.mu.Unlock()
		l.endpoint.Protocol.UnregisterSession(context.WithoutCancel(s.ctx), s.peer.id)
	})
	return s, nil
}

// Enter registers a request until Leave; it reports false if the session has ended.
func (s *webSession) Enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	return !s.ended
}

func (s *webSession) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests--
	s.left = time.Now()
	if !s.ended {
		s.idle.Reset(s.legacy.endpoint.Lease)
	}
}

// expire ends the session if it had no request for a lease.
func (s *webSession) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == 0 && time.Since(s.left) >= s.legacy.endpoint.Lease {
		s.Close()
		s.cancel()
	}
}

// end ends the session and its calls.
func (s *webSession) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Close()
	s.cancel()
}

// Close ends the session, whose mu the caller holds. Its calls continue, and connections can still read their streams.
func (s *webSession) Close() {
	if s.ended {
		return
	}
	s.ended = true
	s.idle.Stop()
	close(s.closed)
}

// Find returns the stream of an event and the event's number in it; nil if the event is unknown.
func (s *webSession) Find(id string) (out *stream, number int64) {
	in, number, ok := parseEventID(id)
	s.mu.Lock()
	out = s.streams[in]
	s.mu.Unlock()
	if !ok || out == nil {
		return nil, 0
	}
	if sent, _, _ := out.size(); number < 1 || number > sent {
		return nil, 0
	}
	return out, number
}

// Call starts to handle a request, and releases its slot at the end. The stream gets all messages of the call, the
// answer last. The call continues when its connection ends, since that does not cancel it. The stream is nil if the
// session has ended.
func (s *webSession) Call(identity auth.Identity, id, message json.RawMessage) *stream {
	endpoint := s.legacy.endpoint
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		s.peer.Leave()
		return nil
	}
	s.calls++
	out := &stream{number: s.calls}
	s.streams[out.number] = out
	way := s.peer.newWay()
	ctx, end := s.peer.begin(s.context(identity, way), id)
	endpoint.Go(func() {
		defer s.peer.Leave()
		defer end()
		answered := make(chan struct{})
		var answer any
		go func() {
			defer close(answered)
			answer = endpoint.handleMessage(ctx, id, message)
		}()
		way.deliver(answered, func(message any) { out.send(endpoint.encode(s.ctx, message)) })
		var last json.RawMessage
		if answer != nil {
			last = endpoint.encode(s.ctx, answer)
		}
		out.end(last)
		s.Keep(out)
	})
	return out
}

// context returns the context of a message in the session. Work that it starts ends with the session.
func (s *webSession) context(identity auth.Identity, way *Way) context.Context {
	return s.legacy.endpoint.Protocol.WithContext(auth.WithClient(auth.WithIdentity(s.ctx, identity), s.ctx), way)
}

// Keep keeps an ended stream for a client that reconnects, and drops the oldest streams above the bounds. It drops a
// stream that has only the answer, which has no event to resume from.
func (s *webSession) Keep(out *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent, _, _ := out.size(); sent < 2 {
		delete(s.streams, out.number)
		return
	}
	s.past = append(s.past, out)
	first, allMessages, allBytes := len(s.past), 0, 0
	for ; first > 0; first-- {
		_, messages, bytes := s.past[first-1].size()
		allMessages, allBytes = allMessages+messages, allBytes+bytes
		if first < len(s.past) && (allMessages > KeptMessages || allBytes > KeptBytes) {
			break
		}
	}
	for _, old := range s.past[:first] {
		delete(s.streams, old.number)
	}
	s.past = slices.Delete(s.past, 0, first)
}
