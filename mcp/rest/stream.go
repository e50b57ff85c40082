package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// keepAliveEvery is the interval of comments on a silent stream of events, which proxies and browsers would end.
const keepAliveEvery = 20 * time.Second

// stream sends messages as lines of JSON or, if the client accepts them, as server-sent events. It is safe for
// concurrent use.
type stream struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	events bool
	begun  bool
	over   bool // the request has ended, and w with it
}

func newStream(w http.ResponseWriter, r *http.Request) *stream {
	return &stream{w: w, events: strings.Contains(r.Header.Get("Accept"), eventStream)}
}

// begin sends the headers.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	_ = http.NewResponseController(s.w).Flush() // the request's context ends when the client is gone
}

func (s *stream) start() {
	if s.begun {
		return
	}
	s.begun = true
	contentType := jsonLines
	if s.events {
		contentType = eventStream
	}
	s.w.Header().Set("Content-Type", contentType)
}

// send sends a message. Messages after the end are dropped.
func (s *stream) send(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		line = []byte(`{"error":"a value cannot be shown"}`)
	}
	if s.events {
		s.write("data: %s\n\n", line)
		return
	}
	s.write("%s\n", line)
}

// failed sends an error as the last message.
func (s *stream) failed(err error) {
	line, _ := json.Marshal(map[string]any{"problem": problemOf(err)}) // its fields have JSON
	if s.events {
		s.write("event: problem\ndata: %s\n\n", line)
		return
	}
	s.write("%s\n", line)
}

func (s *stream) write(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.start()
	_, _ = fmt.Fprintf(s.w, format, args...) // the request's context ends when the client is gone
	_ = http.NewResponseController(s.w).Flush()
}

// started reports whether something was sent.
func (s *stream) started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// end ends the use of the response.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// keepAlive sends comments until the caller calls stop, which waits for the last one. Lines of JSON have no comments.
func (s *stream) keepAlive() (stop func()) {
	if !s.events {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(keepAliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				s.write(": %s\n\n", "alive")
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// lasting returns the context of a response that lasts as long as its client. It also ends with the server.
func (a *API) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(a.streams, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
