package transport

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// subscribed returns a notification that names the request for its subscription.
func subscribed(note mcp.JSONRPCNotification, request json.RawMessage) mcp.JSONRPCNotification {
	note.Params.Meta = maps.Clone(note.Params.Meta)
	if note.Params.Meta == nil {
		note.Params.Meta = map[string]any{}
	}
	note.Params.Meta[mcp.MetaKeySubscriptionID] = request
	return note
}

// firstWrite closes written at the first write to a client.
type firstWrite struct {
	http.ResponseWriter
	once    sync.Once
	written chan struct{}
}

type firstWriteKey struct{}

// watchFirstWrite returns the writer and the request of a handler that calls Acknowledged.
func watchFirstWrite(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	watched := &firstWrite{ResponseWriter: w, written: make(chan struct{})}
	return watched, r.WithContext(context.WithValue(r.Context(), firstWriteKey{}, watched.written))
}

func (w *firstWrite) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.once.Do(func() { close(w.written) })
	return n, err
}

// Flush implements http.Flusher.
func (w *firstWrite) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (w *firstWrite) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ackTimeout bounds the wait for an acknowledgment.
const ackTimeout = time.Second

// Acknowledged waits until the acknowledgment of a request for subscriptions is written. mcp-go drops it if the request
// ends at once, because it has nothing to subscribe to.
func Acknowledged(ctx context.Context) {
	written, watched := ctx.Value(firstWriteKey{}).(chan struct{})
	if !watched {
		return
	}
	timer := time.NewTimer(ackTimeout)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	case <-ctx.Done():
	}
}
