package mcp

import (
	"context"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
)

// subscriptions are the resources that clients want to be told of.
type subscriptions struct {
	mu sync.Mutex
	// byURI has, for each resource, where its changes are told and how to look for them.
	byURI map[string]*subscription
	// states are those that were told last, by sandbox id.
	states map[string]core.State
}

// news says whether a sandbox's state is another one than was told last; "" is a sandbox that is gone.
func (s *subscriptions) news(sandbox string, state core.State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.states[sandbox]
	switch {
	case state == "" && known:
		delete(s.states, sandbox)
		return true
	case known && last == state:
		return false
	}
	if s.states == nil {
		s.states = map[string]core.State{}
	}
	if state != "" {
		s.states[sandbox] = state
	}
	return true
}

type subscription struct {
	location location
	sandbox  core.Sandbox
	clients  []server.ClientSession
	// seen is what a file was like when it was last looked at.
	seen fileState
}

type fileState struct {
	size     int64
	modified time.Time
	mode     fs.FileMode
	exists   bool
}

// filePoll is how often subscribed files are looked at: no provider tells of changes in a file.
const filePoll = time.Second

// hookSubscriptions has mcp-go tell who subscribes to what, in both eras of the protocol.
func (s *Server) hookSubscriptions(hooks *server.Hooks) {
	hooks.AddAfterSubscribe(func(ctx context.Context, _ any, request *mcp.SubscribeRequest, _ *mcp.EmptyResult) {
		s.subscribe(ctx, request.Params.URI)
	})
	hooks.AddAfterUnsubscribe(func(ctx context.Context, _ any, request *mcp.UnsubscribeRequest, _ *mcp.EmptyResult) {
		s.subscribed.remove(request.Params.URI, server.ClientSessionFromContext(ctx))
	})
	hooks.AddBeforeSubscriptionsListen(func(ctx context.Context, _ any, request *mcp.SubscriptionsListenRequest) {
		for _, uri := range request.Params.Notifications.ResourceSubscriptions {
			s.subscribe(ctx, uri)
		}
		if client := server.ClientSessionFromContext(ctx); client != nil {
			context.AfterFunc(ctx, func() { s.subscribed.leave(client) })
		}
	})
	hooks.AddOnUnregisterSession(func(_ context.Context, client server.ClientSession) { s.subscribed.leave(client) })
}

// subscribe notes a subscription to what the caller may see. What they may not see never changes for them.
func (s *Server) subscribe(ctx context.Context, uri string) {
	client := server.ClientSessionFromContext(ctx)
	l, err := parseURI(uri)
	if err != nil || client == nil {
		return
	}
	var sb core.Sandbox
	if l.sandbox != "" {
		if sb, err = s.call(ctx, mcp.CallToolRequest{}).resolve(ctx, l.sandbox); err != nil {
			return
		}
	}
	seen := fileState{}
	if l.kind == "files" {
		seen = s.look(ctx, sb, l.path)
	}
	s.subscribed.add(uri, l, sb, client, seen)
}

func (s *subscriptions) add(uri string, l location, sb core.Sandbox, client server.ClientSession, seen fileState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byURI == nil {
		s.byURI = map[string]*subscription{}
	}
	found := s.byURI[uri]
	if found == nil || found.sandbox.ID != sb.ID {
		found = &subscription{location: l, sandbox: sb, seen: seen}
		s.byURI[uri] = found
	}
	if !slices.Contains(found.clients, client) {
		found.clients = append(found.clients, client)
	}
}

func (s *subscriptions) remove(uri string, client server.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.byURI[uri]; found != nil {
		found.clients = slices.DeleteFunc(found.clients, func(c server.ClientSession) bool { return c == client })
		if len(found.clients) == 0 {
			delete(s.byURI, uri)
		}
	}
}

func (s *subscriptions) leave(client server.ClientSession) {
	s.mu.Lock()
	uris := make([]string, 0, len(s.byURI))
	for uri := range s.byURI {
		uris = append(uris, uri)
	}
	s.mu.Unlock()
	for _, uri := range uris {
		s.remove(uri, client)
	}
}

// changed tells the clients of every resource that fits.
func (s *subscriptions) changed(fits func(*subscription) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, found := range s.byURI {
		if !fits(found) {
			continue
		}
		note := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
			Method: mcp.MethodNotificationResourceUpdated,
			Params: mcp.NotificationParams{AdditionalFields: map[string]any{"uri": uri}},
		}}
		for _, client := range found.clients {
			if streaming, ok := client.(server.SessionWithStreamableHTTPConfig); ok {
				streaming.UpgradeToSSEWhenReceiveNotification()
			}
			select {
			case client.NotificationChannel() <- note:
			default: // it is behind already, and will read
			}
		}
	}
}

// watch tells subscribers of events and of changes in files until the server ends.
func (s *Server) watch() {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(s.watchFiles)
	for s.ctx.Err() == nil {
		for event, err := range s.service.Events(s.ctx) {
			if err != nil {
				s.log.DebugContext(s.ctx, "events", "error", err)
				continue
			}
			s.tell(event)
		}
		// It was too slow: what it missed is everything, for all it knows.
		select {
		case <-s.ctx.Done():
		case <-time.After(filePoll):
			s.mcp.SendNotificationToAllClients(mcp.MethodNotificationResourcesListChanged, nil)
		}
	}
}

func (s *Server) tell(event core.Event) {
	switch event.Type {
	case core.EventState:
		if event.Sandbox == "" || !s.subscribed.news(event.Sandbox, event.State) {
			return
		}
		s.mcp.SendNotificationToAllClients(mcp.MethodNotificationResourcesListChanged, nil)
		s.subscribed.changed(func(sub *subscription) bool {
			return sub.location.sandbox == "" || sub.sandbox.ID == event.Sandbox && sub.location.kind == ""
		})
	case core.EventExec:
		s.subscribed.changed(func(sub *subscription) bool {
			return sub.sandbox.ID == event.Sandbox && sub.location.kind == "exec" &&
				(sub.location.exec == "" || event.Exec != nil && event.Exec.ID == sub.location.exec)
		})
	case core.EventOperation, core.EventProgress, core.EventDenial:
	}
}

// fileChanged tells of a file that a tool changed, without waiting for the next look.
func (s *Server) fileChanged(sb core.Sandbox, name string) {
	s.subscribed.changed(func(sub *subscription) bool {
		if sub.location.kind != "files" || sub.sandbox.ID != sb.ID {
			return false
		}
		if sub.location.path != name && !strings.HasPrefix(name, strings.TrimSuffix(sub.location.path, "/")+"/") {
			return false
		}
		sub.seen.modified = time.Time{}
		return true
	})
}

func (s *Server) watchFiles() {
	tick := time.NewTicker(filePoll)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.lookAtFiles()
		}
	}
}

func (s *Server) lookAtFiles() {
	s.subscribed.mu.Lock()
	var files []*subscription
	for _, sub := range s.subscribed.byURI {
		if sub.location.kind == "files" {
			files = append(files, sub)
		}
	}
	s.subscribed.mu.Unlock()
	for _, file := range files {
		now := s.look(s.ctx, file.sandbox, file.location.path)
		s.subscribed.changed(func(sub *subscription) bool {
			if sub != file || sub.seen == now {
				return false
			}
			told := sub.seen.modified.IsZero() && sub.seen.exists // fileChanged did
			sub.seen = now
			return !told
		})
	}
}

func (s *Server) look(ctx context.Context, sb core.Sandbox, name string) fileState {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	info, err := s.service.Stat(ctx, sb.Provider+"/"+sb.ID, name)
	if err != nil {
		return fileState{}
	}
	return fileState{size: info.Size, modified: info.ModTime, mode: info.Mode, exists: true}
}
