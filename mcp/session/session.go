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

// Session is one client, for as long as it is there: until its transport says otherwise, or where the transport knows
// of no session until it is silent for a lease. Requests without a session of the protocol share one for each owner.
type Session struct {
	ID       string
	identity auth.Identity

	mu sync.Mutex
	// requests are under way; the last was until lastSeen.
	requests int
	lastSeen time.Time
	// Gone says that the client is not there any more.
	gone bool
	// boxes are the sandboxes that the session keeps alive; true for those whose provider cannot renew: nothing but the
	// session ends them early.
	boxes map[string]bool
	roots *[]string // host directories; nil while they were not asked for
}

func (s *Session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSeen = time.Now()
}

// Enter says that a request is under way, until leave.
func (s *Session) Enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
}

// Leave ends what Enter began.
func (s *Session) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests--
	s.lastSeen = time.Now()
}

// silent says whether nothing was heard of the client for so long.
func (s *Session) silent(now time.Time, long time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests == 0 && now.Sub(s.lastSeen) > long
}

// Lease makes the session keep a sandbox alive. It says whether the client is there to keep it for.
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

// KnownRoots returns the client's host directories; nil while they were not asked for.
func (s *Session) KnownRoots() *[]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roots
}

// SetRoots keeps the client's host directories; nil forgets them.
func (s *Session) SetRoots(dirs *[]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roots = dirs
}

// refs are the sandboxes that the session keeps alive.
func (s *Session) refs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.boxes))
}

// Table are the clients of a server.
type Table struct {
	Options
	mu   sync.Mutex
	byID map[string]*Session
	// registered has the owner of each session that mcp-go knows, can what its client said that it can do: mcp-go's own
	// sessions of SSE do not keep that.
	registered map[string]string
	can        map[string]mcp.ClientCapabilities
}

// Options say how sessions keep sandboxes alive.
type Options struct {
	Service *service.Service
	Log     *slog.Logger
	// Lease is how long a sandbox lives without a renewal.
	Lease time.Duration
	// Terminate ends the sandboxes of a client that left, instead of leaving them to their lease.
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

// Of finds the session of a request and notes that its client is there.
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

// Hook has mcp-go tell of sessions that end.
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

// Capabilities are what the client of a request said that it can do.
func (s *Table) Capabilities(ctx context.Context) mcp.ClientCapabilities {
	client := server.ClientSessionFromContext(ctx)
	if client == nil {
		return mcp.ClientCapabilities{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.can[client.SessionID()]
}

// Belongs says whether a session of mcp-go is there and its owner's.
func (s *Table) Belongs(id, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.registered[id]
	return ok && have == owner
}

// StandingIDs lists the sessions that mcp-go knows.
func (s *Table) StandingIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.registered))
}

// standing says whether a session's transport will tell when it ends.
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

// renew makes a session's sandboxes live for one lease more; the core sees to it that none lives beyond what was asked
// for.
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

// Keep makes a session keep a sandbox alive that it launched. A client that is gone by now has left it.
func (s *Table) Keep(ctx context.Context, client *Session, sb core.Sandbox) {
	there := client.Lease(sb)
	s.renew(ctx, client)
	if !there {
		s.Settle(client)
	}
}

// Gone forgets a client that is not there any more.
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

// Settle sees to what becomes of the sandboxes of a client that is gone. Those that another one uses stay with that.
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
		if all || fixed { // what cannot be given a lease must not run on for days, and cost
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
				s.Log.WarnContext(ctx, "a sandbox of a client that is gone is left", "sandbox", ref, "error", err)
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
