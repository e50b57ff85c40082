package rest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// idempotencyHeader is the header of a key that makes a launch repeatable (draft-ietf-httpapi-idempotency-key-header).
const idempotencyHeader = "Idempotency-Key"

// The launches that the server remembers: at most maxLaunches of an owner, each for launchFor. maxIdempotencyKey bounds
// a key, in bytes.
const (
	maxLaunches       = 100
	launchFor         = 24 * time.Hour
	maxIdempotencyKey = 255
)

// launch is the operation that launches a sandbox.
func launch(tool tools.Tool) operation {
	return operation{
		method: http.MethodPost, path: "/sandboxes", tool: tool, status: http.StatusCreated, handle: (*API).launch,
		produces: []string{"application/json"},
	}
}

// launched is the part of the response that decides about its headers.
type launched struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
}

// launch launches a sandbox. With an idempotency key, a repeated request returns the sandbox of the first one, and a
// launch continues without its client.
func (a *API) launch(op operation, w http.ResponseWriter, r *http.Request, c *tools.Call) error {
	arguments, err := op.arguments(r)
	if err != nil {
		return err
	}
	var value json.RawMessage
	switch key := r.Header.Get(idempotencyHeader); {
	case key == "":
		value, err = op.call(r.Context(), c, arguments)
	case len(key) > maxIdempotencyKey:
		err = core.Errorf(
			core.KindUsage, "launch", "", "the %s is longer than %d bytes", idempotencyHeader, maxIdempotencyKey,
		)
	default:
		value, err = a.launches.once(r.Context(), a.host.Go, launchKey{auth.OwnerKey(c.Identity), key}, arguments, func() (
			json.RawMessage, error,
		) {
			return op.call(context.WithoutCancel(r.Context()), c, arguments)
		})
	}
	if err != nil {
		return err
	}
	var sb launched
	if err := json.Unmarshal(value, &sb); err != nil {
		return core.Wrap("launch", "", err)
	}
	status, ref := http.StatusCreated, sb.ID
	if sb.State == string(core.StateCreating) { // the launch continues
		status, ref = http.StatusAccepted, sb.Name
	}
	w.Header().Set("Location", prefix+"/sandboxes/"+url.PathEscape(ref))
	writeJSON(w, status, value)
	return nil
}

// launchKey is an idempotency key of an owner.
type launchKey struct{ owner, key string }

// launches has the launches with an idempotency key, oldest first. It is safe for concurrent use.
type launches struct {
	mu   sync.Mutex
	list []*keyedLaunch
}

// keyedLaunch is the launch of a key.
type keyedLaunch struct {
	launchKey

	request [sha256.Size]byte // its arguments, which may have secrets
	begun   time.Time
	done    chan struct{} // closed when the fields below are set
	value   json.RawMessage
	err     error
}

// once runs the launch of a key, or waits for the one under way and returns its value. A failed launch is forgotten, so
// the next request launches again. Other arguments with the same key are a conflict.
func (l *launches) once(
	ctx context.Context, goes func(func()), key launchKey, arguments json.RawMessage,
	run func() (json.RawMessage, error),
) (json.RawMessage, error) {
	request := sha256.Sum256(arguments)
	l.mu.Lock()
	l.list = slices.DeleteFunc(l.list, func(k *keyedLaunch) bool { return time.Since(k.begun) > launchFor })
	var found *keyedLaunch
	if i := slices.IndexFunc(l.list, func(k *keyedLaunch) bool { return k.launchKey == key }); i >= 0 {
		found = l.list[i]
	}
	if found == nil {
		l.makeRoom(key.owner)
		found = &keyedLaunch{launchKey: key, request: request, begun: time.Now(), done: make(chan struct{})}
		l.list = append(l.list, found)
		goes(func() {
			found.value, found.err = run()
			if found.err != nil {
				l.forget(found)
			}
			close(found.done)
		})
	}
	l.mu.Unlock()
	if found.request != request {
		return nil, &failure{http.StatusUnprocessableEntity, core.Errorf(
			core.KindConflict, "launch", "", "the %s belongs to a launch with other arguments", idempotencyHeader,
		)}
	}
	select {
	case <-found.done:
		return found.value, found.err
	case <-ctx.Done():
		return nil, core.Wrap("launch", "", ctx.Err())
	}
}

// makeRoom forgets the oldest launch of an owner who has the most. The caller holds mu.
func (l *launches) makeRoom(owner string) {
	count, oldest := 0, -1
	for i, k := range l.list {
		if k.owner != owner {
			continue
		}
		if count++; oldest < 0 {
			oldest = i
		}
	}
	if count >= maxLaunches {
		l.list = slices.Delete(l.list, oldest, oldest+1)
	}
}

func (l *launches) forget(launch *keyedLaunch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(other *keyedLaunch) bool { return other == launch })
}
