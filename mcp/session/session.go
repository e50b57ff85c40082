package session

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/auth"
)

// Session is one client. It ends when its transport reports the end. If the transport has no sessions, it ends after a
// lease without requests. Requests without a protocol session share one Session for each API key or owner.
type Session struct {
	ID       string
	identity auth.Identity

	mu sync.Mutex
	// requests is the number of requests under way; lastSeen is the time of the last activity.
	requests int
	lastSeen time.Time
	// gone is true once the client has left.
	gone bool
	// boxes are the sandboxes that the session keeps alive. The value is true if the provider cannot renew leases: then
	// only the session ends the sandbox early.
	boxes map[string]bool
	roots *[]string // host directories; nil until requested
}

func (s *Session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSeen = time.Now()
}

// Enter records the start of a request; Leave records its end.
func (s *Session) Enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
}

// Leave records the end of a request.
func (s *Session) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests--
	s.lastSeen = time.Now()
}

// silent reports whether the client made no request for the given time.
func (s *Session) silent(now time.Time, long time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests == 0 && now.Sub(s.lastSeen) > long
}

// Lease makes the session keep a sandbox alive. It reports whether the client is still connected.
func (s *Session) Lease(sb core.Sandbox) (there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ref := sb.Ref(); !s.boxes[ref] {
		s.boxes[ref] = false
	}
	return !s.gone
}

func (s *Session) leases(ref string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, leased := s.boxes[ref]
	return leased
}

// Release stops keeping a sandbox alive.
func (s *Session) Release(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.boxes, ref)
}

// KnownRoots returns the client's host directories; nil until requested.
func (s *Session) KnownRoots() *[]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roots
}

// SetRoots stores the client's host directories; nil removes them.
func (s *Session) SetRoots(dirs *[]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roots = dirs
}

// refs returns the references of the sandboxes that the session keeps alive.
func (s *Session) refs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.boxes))
}

// Table has the clients of a server.
type Table struct {
	Options
	mu   sync.Mutex
	byID map[string]*Session
	// registered maps each session of mcp-go to its owner. can has the capabilities that the client declared: mcp-go does
	// not keep them for SSE.
	registered map[string]string
	can        map[string]mcp.ClientCapabilities
}

// Options configure how sessions keep sandboxes alive.
type Options struct {
	Service *service.Service
	Log     *slog.Logger
	// Lease is how long a sandbox lives without a renewal.
	Lease time.Duration
	// Terminate ends the sandboxes of a client that left. Otherwise they live until their lease ends.
	Terminate bool
	// Context ends when the server does. Go starts a function in the background; the server waits for it.
	Context context.Context //nolint:containedctx // sessions live as long as the server
	Go      func(func())
}

// New makes an empty table. The caller runs RenewAll, and calls Close.
func New(opts Options) *Table {
	return &Table{
		Options: opts, byID: map[string]*Session{}, registered: map[string]string{}, can: map[string]mcp.ClientCapabilities{},
	}
}

// Of returns the session of a request and records the client's activity.
func (s *Table) Of(ctx context.Context, identity auth.Identity) *Session {
	id := ""
	if client := server.ClientSessionFromContext(ctx); client != nil {
		id = client.SessionID()
	}
	if id == "" {
		id = "shared-" + cmp.Or(identity.Key, identity.Owner, "user")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byID[id]
	if found == nil {
		found = &Session{ID: id, identity: identity, boxes: map[string]bool{}}
		s.byID[id] = found
	}
	found.touch()
	return found
}

// Hook registers for the start and the end of mcp-go's sessions.
func (s *Table) Hook(hooks *server.Hooks) {
	hooks.AddOnRegisterSession(func(ctx context.Context, client server.ClientSession) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.registered[client.SessionID()] = auth.OwnerKey(auth.IdentityFrom(ctx))
	})
	hooks.AddAfterInitialize(func(ctx context.Context, _ any, request *mcp.InitializeRequest, _ *mcp.InitializeResult) {
		client := server.ClientSessionFromContext(ctx)
		if client == nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, there := s.registered[client.SessionID()]; there {
			s.can[client.SessionID()] = request.Params.Capabilities
		}
	})
	hooks.AddOnUnregisterSession(func(_ context.Context, client server.ClientSession) {
		id := client.SessionID()
		s.mu.Lock()
		delete(s.registered, id)
		delete(s.can, id)
		s.mu.Unlock()
		s.Go(func() { s.Gone(id) })
	})
}

// Capabilities returns the capabilities that the client of a request declared.
func (s *Table) Capabilities(ctx context.Context) mcp.ClientCapabilities {
	client := server.ClientSessionFromContext(ctx)
	if client == nil {
		return mcp.ClientCapabilities{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.can[client.SessionID()]
}

// Belongs reports whether a session of mcp-go exists and belongs to owner.
func (s *Table) Belongs(id, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.registered[id]
	return ok && have == owner
}

// StandingIDs lists the sessions that are registered with mcp-go.
func (s *Table) StandingIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.registered))
}

// standing reports whether a session's transport will report its end.
func (s *Table) standing(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.registered[id]
	return there
}

// Count counts the sessions.
func (s *Table) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

func (s *Table) all() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Session, 0, len(s.byID))
	for _, client := range s.byID {
		all = append(all, client)
	}
	return all
}

// RenewAll renews leases until the server ends.
func (s *Table) RenewAll() {
	tick := time.NewTicker(max(s.Lease/3, 50*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.Context.Done():
			return
		case now := <-tick.C:
			for _, client := range s.all() {
				if !s.standing(client.ID) && client.silent(now, s.Lease) {
					s.Gone(client.ID)
					continue
				}
				s.renew(s.Context, client)
			}
		}
	}
}

// renew extends the session's sandboxes by one lease. The core keeps each within its requested lifetime.
func (s *Table) renew(ctx context.Context, client *Session) {
	for _, ref := range client.refs() {
		switch err := s.extend(ctx, ref); {
		case err == nil:
		case errors.Is(err, core.KindNotFound):
			client.Release(ref)
		case errors.Is(err, core.KindUnsupported):
			client.mu.Lock()
			client.boxes[ref] = true
			client.mu.Unlock()
		}
	}
}

// renewTimeout bounds one renewal.
const renewTimeout = 10 * time.Second

func (s *Table) extend(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	err := s.Service.Sandboxes.KeepAlive(ctx, ref, s.Lease)
	if err != nil {
		s.Log.DebugContext(ctx, "lease", "sandbox", ref, "error", err)
	}
	return err
}

// Keep makes a session keep alive a sandbox that it launched. If the client has left, Keep settles its sandboxes.
func (s *Table) Keep(ctx context.Context, client *Session, sb core.Sandbox) {
	there := client.Lease(sb)
	s.renew(ctx, client)
	if !there {
		s.Settle(client)
	}
}

// Gone removes a client that has left.
func (s *Table) Gone(id string) {
	s.mu.Lock()
	client := s.byID[id]
	delete(s.byID, id)
	s.mu.Unlock()
	if client == nil {
		return
	}
	client.mu.Lock()
	client.gone = true
	client.mu.Unlock()
	s.Settle(client)
}

// Settle ends or leaves the sandboxes of a client that has left. Sandboxes of another session stay alive.
func (s *Table) Settle(left *Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context), time.Minute)
	defer cancel()
	all := s.Terminate
	if !all {
		s.renew(ctx, left) // the whole lease from now
	}
	var boxes []string
	left.mu.Lock()
	for ref, fixed := range left.boxes {
		if all || fixed { // a sandbox without a lease would run, and cost, for days
			boxes = append(boxes, ref)
		}
	}
	left.mu.Unlock()
	others := s.all()
	var wg sync.WaitGroup
	for _, ref := range boxes {
		if slices.ContainsFunc(others, func(other *Session) bool { return other.leases(ref) }) {
			continue
		}
		wg.Go(func() {
			if err := s.Service.Sandboxes.Terminate(ctx, ref); err != nil && !errors.Is(err, core.KindNotFound) {
				s.Log.WarnContext(ctx, "a sandbox of a disconnected client could not be terminated", "sandbox", ref, "error", err)
			}
		})
	}
	wg.Wait()
}

// Close ends all sessions.
func (s *Table) Close() {
	for _, client := range s.all() {
		s.Gone(client.ID)
	}
}
