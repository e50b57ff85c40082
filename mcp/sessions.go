package mcp

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
)

// session is one client, for as long as it is there: until its transport says otherwise, or where the transport knows
// of no session until it is silent for a lease. Requests without a session of the protocol share one for each owner.
type session struct {
	id  string
	who Identity

	mu sync.Mutex
	// requests are under way; the last was until lastSeen.
	requests int
	lastSeen time.Time
	// gone says that the client is not there any more.
	gone bool
	// boxes are the sandboxes that the session keeps alive; true for those whose provider cannot renew: nothing but the
	// session ends them early.
	boxes map[string]bool
	roots *[]string // host directories; nil while they were not asked for
}

func (s *session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSeen = time.Now()
}

// enter says that a request is under way, until leave.
func (s *session) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
}

func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests--
	s.lastSeen = time.Now()
}

// silent says whether nothing was heard of the client for so long.
func (s *session) silent(now time.Time, long time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests == 0 && now.Sub(s.lastSeen) > long
}

// lease makes the session keep a sandbox alive. It says whether the client is there to keep it for.
func (s *session) lease(sb core.Sandbox) (there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ref := sb.Ref(); !s.boxes[ref] {
		s.boxes[ref] = false
	}
	return !s.gone
}

func (s *session) leases(ref string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, leased := s.boxes[ref]
	return leased
}

func (s *session) release(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.boxes, ref)
}

// knownRoots returns the client's host directories; nil while they were not asked for.
func (s *session) knownRoots() *[]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roots
}

// setRoots keeps the client's host directories; nil forgets them.
func (s *session) setRoots(dirs *[]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roots = dirs
}

// refs are the sandboxes that the session keeps alive.
func (s *session) refs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.boxes))
}

// sessions are the clients of a server.
type sessions struct {
	sessionOptions
	mu   sync.Mutex
	byID map[string]*session
	// registered has the owner of each session that mcp-go knows, can what its client said that it can do: mcp-go's own
	// sessions of SSE do not keep that.
	registered map[string]string
	can        map[string]mcp.ClientCapabilities
}

// sessionOptions say how sessions keep sandboxes alive.
type sessionOptions struct {
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

func newSessions(opts sessionOptions) *sessions {
	return &sessions{
		sessionOptions: opts, byID: map[string]*session{}, registered: map[string]string{}, can: map[string]mcp.ClientCapabilities{},
	}
}

// of finds the session of a request and notes that its client is there.
func (s *sessions) of(ctx context.Context, who Identity) *session {
	id := ""
	if client := server.ClientSessionFromContext(ctx); client != nil {
		id = client.SessionID()
	}
	if id == "" {
		id = "shared-" + cmp.Or(who.Key, who.Owner, "user")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byID[id]
	if found == nil {
		found = &session{id: id, who: who, boxes: map[string]bool{}}
		s.byID[id] = found
	}
	found.touch()
	return found
}

// hook has mcp-go tell of sessions that end.
func (s *sessions) hook(hooks *server.Hooks) {
	hooks.AddOnRegisterSession(func(ctx context.Context, client server.ClientSession) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.registered[client.SessionID()] = ownerKey(identityFrom(ctx))
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
		s.Go(func() { s.gone(id) })
	})
}

// capabilities are what the client of a request said that it can do.
func (s *sessions) capabilities(ctx context.Context) mcp.ClientCapabilities {
	client := server.ClientSessionFromContext(ctx)
	if client == nil {
		return mcp.ClientCapabilities{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.can[client.SessionID()]
}

// belongs says whether a session of mcp-go is there and its owner's.
func (s *sessions) belongs(id, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.registered[id]
	return ok && have == owner
}

// standingIDs lists the sessions that mcp-go knows.
func (s *sessions) standingIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.registered))
}

// standing says whether a session's transport will tell when it ends.
func (s *sessions) standing(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.registered[id]
	return there
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

func (s *sessions) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*session, 0, len(s.byID))
	for _, session := range s.byID {
		all = append(all, session)
	}
	return all
}

// renewAll renews leases until the server ends.
func (s *sessions) renewAll() {
	tick := time.NewTicker(max(s.Lease/3, 50*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.Context.Done():
			return
		case now := <-tick.C:
			for _, session := range s.all() {
				if !s.standing(session.id) && session.silent(now, s.Lease) {
					s.gone(session.id)
					continue
				}
				s.renew(s.Context, session)
			}
		}
	}
}

// renew makes a session's sandboxes live for one lease more; the core sees to it that none lives beyond what was asked for.
func (s *sessions) renew(ctx context.Context, session *session) {
	for _, ref := range session.refs() {
		switch err := s.extend(ctx, ref); {
		case err == nil:
		case errors.Is(err, core.KindNotFound):
			session.release(ref)
		case errors.Is(err, core.KindUnsupported):
			session.mu.Lock()
			session.boxes[ref] = true
			session.mu.Unlock()
		}
	}
}

// renewTimeout bounds one renewal.
const renewTimeout = 10 * time.Second

func (s *sessions) extend(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	err := s.Service.KeepAlive(ctx, ref, s.Lease)
	if err != nil {
		s.Log.DebugContext(ctx, "lease", "sandbox", ref, "error", err)
	}
	return err
}

// keep makes a session keep a sandbox alive that it launched. A client that is gone by now has left it.
func (s *sessions) keep(ctx context.Context, session *session, sb core.Sandbox) {
	there := session.lease(sb)
	s.renew(ctx, session)
	if !there {
		s.settle(session)
	}
}

// gone forgets a client that is not there any more.
func (s *sessions) gone(id string) {
	s.mu.Lock()
	session := s.byID[id]
	delete(s.byID, id)
	s.mu.Unlock()
	if session == nil {
		return
	}
	session.mu.Lock()
	session.gone = true
	session.mu.Unlock()
	s.settle(session)
}

// settle sees to what becomes of the sandboxes of a client that is gone. Those that another one uses stay with that.
func (s *sessions) settle(left *session) {
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
		if slices.ContainsFunc(others, func(other *session) bool { return other.leases(ref) }) {
			continue
		}
		wg.Go(func() {
			if err := s.Service.Terminate(ctx, ref); err != nil && !errors.Is(err, core.KindNotFound) {
				s.Log.WarnContext(ctx, "a sandbox of a client that is gone is left", "sandbox", ref, "error", err)
			}
		})
	}
	wg.Wait()
}

func (s *sessions) close() {
	for _, session := range s.all() {
		s.gone(session.id)
	}
}
