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

// webSession is a client of legacyHTTP. It ends when the client says so, or when no request of it was there for a
// lease.
type webSession struct {
	legacy *legacyHTTP
	peer   *peer
	// owner may use the session, and nobody else.
	owner  string
	ctx    context.Context //nolint:containedctx // calls go on without the request that brought them
	cancel context.CancelFunc
	// closed says that nothing belongs to the session any more but calls under way.
	closed chan struct{}
	// none is the stream of what belongs to no call.
	none *stream

	mu    sync.Mutex
	ended bool
	// requests are there, the last was until left; idle ends the session a lease later.
	requests int
	left     time.Time
	idle     *time.Timer
	// streams has none, those of calls under way, and those of past calls.
	streams map[int64]*stream
	calls   int64
	past    []*stream // oldest first
}

// begin makes a session, in a request that calls its leave.
func (l *legacyHTTP) begin(ctx context.Context, who auth.Identity) (*webSession, error) {
	s := &webSession{
		legacy: l, peer: newPeer(rand.Text()), owner: auth.OwnerKey(who), closed: make(chan struct{}), none: &stream{},
		requests: 1,
	}
	s.streams = map[int64]*stream{s.none.number: s.none}
	s.ctx, s.cancel = context.WithCancel(l.endpoint.Context)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		s.cancel()
		return nil, core.Errorf(core.KindUnavailable, "mcp", "", "the server ends")
	}
	if err := l.endpoint.Protocol.RegisterSession(ctx, s.peer.own); err != nil {
		s.cancel()
		return nil, err
	}
	s.idle = time.AfterFunc(l.endpoint.Lease, s.expire)
	l.sessions[s.peer.id] = s
	l.endpoint.Go(func() {
		s.peer.own.deliver(s.closed, func(message any) { s.none.say(l.endpoint.encode(s.ctx, message)) })
		s.none.end(nil)
		l.mu.Lock()
		delete(l.sessions, s.peer.id)
		l.mu.Unlock()
		l.endpoint.Protocol.UnregisterSession(context.WithoutCancel(s.ctx), s.peer.id)
	})
	return s, nil
}

// Enter says that a request is there, until leave; it is false when the session has ended.
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

// expire ends the session if nobody is there.
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

// Close ends the session, whose mu is held; its calls go on, and are told to whoever reads them.
func (s *webSession) Close() {
	if s.ended {
		return
	}
	s.ended = true
	s.idle.Stop()
	close(s.closed)
}

// Find finds the stream of an event, and the event's number there; nil where it is not known.
func (s *webSession) Find(id string) (told *stream, number int64) {
	in, number, ok := parseEventID(id)
	s.mu.Lock()
	told = s.streams[in]
	s.mu.Unlock()
	if !ok || told == nil {
		return nil, 0
	}
	if said, _, _ := told.size(); number < 1 || number > said {
		return nil, 0
	}
	return told, number
}

// Call begins to handle a request, in a slot that it gives back. All that comes of it is told on the stream: what the
// server sends meanwhile, and then the answer. It goes on when the connection that brought it ends, for that is no
// cancellation. The stream is nil when the session has ended.
func (s *webSession) Call(who auth.Identity, id, message json.RawMessage) *stream {
	endpoint := s.legacy.endpoint
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		s.peer.Leave()
		return nil
	}
	s.calls++
	told := &stream{number: s.calls}
	s.streams[told.number] = told
	way := s.peer.newWay()
	ctx, end := s.peer.begin(s.context(who, way), id)
	endpoint.Go(func() {
		defer s.peer.Leave()
		defer end()
		answered := make(chan struct{})
		var answer any
		go func() {
			defer close(answered)
			answer = endpoint.handleMessage(ctx, id, message)
		}()
		way.deliver(answered, func(message any) { told.say(endpoint.encode(s.ctx, message)) })
		var last json.RawMessage
		if answer != nil {
			last = endpoint.encode(s.ctx, answer)
		}
		told.end(last)
		s.Keep(told)
	})
	return told
}

// context is that of a message that came in the session: what it starts ends with the session.
func (s *webSession) context(who auth.Identity, way *Way) context.Context {
	return s.legacy.endpoint.Protocol.WithContext(auth.WithClient(auth.WithIdentity(s.ctx, who), s.ctx), way)
}

// Keep keeps a stream that has ended for a connection that comes back, and forgets the oldest above the bounds. One
// that said the answer alone is not kept: its answer is no stream, and has no event that a client could name.
func (s *webSession) Keep(told *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if said, _, _ := told.size(); said < 2 {
		delete(s.streams, told.number)
		return
	}
	s.past = append(s.past, told)
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
