package transport

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/mcp/auth"
)

// legacyHTTP serves streamable HTTP to clients of the protocol before 2026-07-28, which has sessions
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports). Messages of a call go to the stream of
// its POST, in order and before the answer. Messages of no call go to the stream of a GET. A GET that names the last
// event it saw resumes the stream of that event.
//
// It replaces mcp-go's transport, in which all requests and the stream of a session share one queue. There, a call's
// notifications may reach another request, arrive late or be lost.
type legacyHTTP struct {
	endpoint *Endpoint

	mu       sync.Mutex
	sessions map[string]*webSession // by id
	ending   bool
}

const noSession = "there is no such session"

// session returns the session of a request, or answers with an error and returns nil. The caller calls its Leave.
func (l *legacyHTTP) session(w http.ResponseWriter, r *http.Request) *webSession {
	if version := r.Header.Get(mcp.HeaderProtocolVersion); version != "" && !mcp.IsValidProtocolVersion(version) {
		http.Error(w, "the protocol's version is not served", http.StatusBadRequest)
		return nil
	}
	id := r.Header.Get(server.HeaderKeySessionID)
	if id == "" {
		http.Error(w, "there is no "+server.HeaderKeySessionID+": initialize comes first", http.StatusBadRequest)
		return nil
	}
	l.mu.Lock()
	found := l.sessions[id]
	l.mu.Unlock()
	if found == nil || found.owner != auth.OwnerKey(auth.IdentityFrom(r.Context())) || !found.Enter() {
		http.Error(w, noSession, http.StatusNotFound)
		return nil
	}
	return found
}

// shutdown closes every session and prevents new ones.
func (l *legacyHTTP) shutdown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	for _, s := range l.sessions {
		s.mu.Lock()
		s.Close()
		s.mu.Unlock()
	}
}

// post handles a message from a client.
func (l *legacyHTTP) post(w http.ResponseWriter, r *http.Request, message json.RawMessage) {
	var head envelope
	if err := json.Unmarshal(message, &head); err != nil {
		sayJSON(
			w, http.StatusBadRequest,
			l.endpoint.encode(
				r.Context(), mcp.NewJSONRPCError(mcp.NewRequestId(nil), mcp.PARSE_ERROR, "the body is not a message", nil),
			),
		)
		return
	}
	if head.Method == string(mcp.MethodInitialize) {
		l.initialize(w, r, head.ID, message)
		return
	}
	s := l.session(w, r)
	if s == nil {
		return
	}
	defer s.Leave()
	identity := auth.IdentityFrom(r.Context())
	switch {
	case head.answers():
		s.peer.answered(head)
		w.WriteHeader(http.StatusAccepted)
	case len(head.ID) == 0 && head.Method == string(mcp.MethodNotificationCancelled):
		s.peer.cancelled(message)
		w.WriteHeader(http.StatusAccepted)
	case len(head.ID) == 0:
		if refused := l.endpoint.handleMessage(s.context(identity, s.peer.own), head.ID, message); refused != nil {
			sayJSON(w, http.StatusBadRequest, l.endpoint.encode(r.Context(), refused))
			return
		}
		w.WriteHeader(http.StatusAccepted)
	case !s.peer.Enter():
		sayJSON(w, http.StatusTooManyRequests, l.endpoint.encode(r.Context(), tooBusy(head.ID)))
	default:
		if out := s.Call(identity, head.ID, message); out != nil {
			l.reply(w, r, s, out)
			return
		}
		http.Error(w, noSession, http.StatusNotFound)
	}
}

// initialize starts a session.
func (l *legacyHTTP) initialize(w http.ResponseWriter, r *http.Request, id, message json.RawMessage) {
	identity := auth.IdentityFrom(r.Context())
	s, err := l.begin(r.Context(), identity)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.Leave()
	response := l.endpoint.handleMessage(s.context(identity, s.peer.own), id, message)
	if s.peer.Initialized() {
		w.Header().Set(server.HeaderKeySessionID, s.peer.id)
	} else {
		s.end()
	}
	if response == nil { // it was a notification
		w.WriteHeader(http.StatusAccepted)
		return
	}
	sayJSON(w, http.StatusOK, l.endpoint.encode(r.Context(), response))
}

// reply sends a call's messages to its client: as JSON if there is only the answer, else as a stream.
func (l *legacyHTTP) reply(w http.ResponseWriter, r *http.Request, s *webSession, out *stream) {
	reader, _ := out.attach()
	events, more := out.after(reader, 0)
	for len(events) == 0 && more != nil {
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
		events, more = out.after(reader, 0)
	}
	switch {
	case more != nil || len(events) > 1:
		l.writeEvents(w, r, s, out, reader, 0)
	case len(events) == 1:
		sayJSON(w, http.StatusOK, events[0].message)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// get sends the messages of no call that no earlier GET has sent. A request with a last event resumes that event's
// stream.
func (l *legacyHTTP) get(w http.ResponseWriter, r *http.Request) {
	s := l.session(w, r)
	if s == nil {
		return
	}
	defer s.Leave()
	last := r.Header.Get(mcp.HeaderLastEventID)
	if last == "" {
		reader, from := s.none.attach()
		l.writeEvents(w, r, s, s.none, reader, from)
		return
	}
	out, from := s.Find(last)
	if out == nil {
		http.Error(w, "the event of "+mcp.HeaderLastEventID+" is unknown or has expired", http.StatusBadRequest)
		return
	}
	reader, _ := out.attach()
	l.writeEvents(w, r, s, out, reader, from)
}

// writeEvents writes the messages of a stream until it ends, another connection reads it, or this connection ends. It
// keeps the connection of a GET alive.
func (l *legacyHTTP) writeEvents(
	w http.ResponseWriter, r *http.Request, s *webSession, out *stream, reader int, from int64,
) {
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	var alive <-chan time.Time
	if r.Method == http.MethodGet {
		tick := time.NewTicker(KeepAliveEvery)
		defer tick.Stop()
		alive = tick.C
	}
	for r.Context().Err() == nil { // a disconnected client reads nothing
		events, more := out.after(reader, from)
		for _, e := range events {
			if _, err := fmt.Fprintf(
				w, "id: %s\nevent: message\ndata: %s\n\n", eventID(out.number, e.number), e.message,
			); err != nil {
				return
			}
			from = e.number
		}
		if control.Flush() != nil || more == nil {
			return
		}
		select {
		case <-more:
		case <-alive: // no event: a client cannot resume from it
			ping := l.endpoint.encode(r.Context(), rpcRequest(s.peer.requests.Add(1), mcp.MethodPing, nil))
			if _, err := fmt.Fprintf(w, "event: message\ndata: %s\n\n", ping); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// delete ends a session at its client's request.
func (l *legacyHTTP) delete(w http.ResponseWriter, r *http.Request) {
	if s := l.session(w, r); s != nil {
		s.end()
		s.Leave()
	}
}

func sayJSON(w http.ResponseWriter, status int, message json.RawMessage) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(message)
}
