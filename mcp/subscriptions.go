package mcp

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/transport"
)

// subscriptions has the resources that clients subscribed to.
type subscriptions struct {
	mu sync.Mutex
	// byURI maps a resource to its subscribers and its watch.
	byURI map[string]*subscription
	// lists are the clients that watch the list of resources: those that listen to it, and all of the protocol before
	// 2026-07-28.
	lists []server.ClientSession
	// states holds the last reported state of each sandbox, by its id.
	states map[string]core.State
	// watches is the number of watched files; closed prevents further watches.
	watches int
	closed  bool
}

// news reports whether a sandbox's state differs from the last reported one; "" means a removed sandbox.
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
	// file is the state of a watched file; unused for other resources.
	file fileWatch
}

// hookSubscriptions registers for subscriptions in mcp-go, in both eras of the protocol.
func (s *Server) hookSubscriptions(hooks *server.Hooks) {
	hooks.AddAfterSubscribe(func(ctx context.Context, _ any, request *mcp.SubscribeRequest, _ *mcp.EmptyResult) {
		s.subscribe(ctx, request.Params.URI)
	})
	hooks.AddAfterUnsubscribe(func(ctx context.Context, _ any, request *mcp.UnsubscribeRequest, _ *mcp.EmptyResult) {
		s.subscribed.remove(request.Params.URI, transport.Subscriber(ctx))
	})
	hooks.AddAfterInitialize(func(ctx context.Context, _ any, _ *mcp.InitializeRequest, _ *mcp.InitializeResult) {
		if client := server.ClientSessionFromContext(ctx); client != nil {
			s.subscribed.join(client)
		}
	})
	hooks.AddBeforeSubscriptionsListen(func(ctx context.Context, _ any, request *mcp.SubscriptionsListenRequest) {
		if client := transport.Subscriber(ctx); client != nil && request.Params.Notifications.ResourcesListChanged {
			s.subscribed.join(client)
		}
		for _, uri := range request.Params.Notifications.ResourceSubscriptions {
			s.subscribe(ctx, uri)
		}
		listener := s.sessions.Of(ctx, auth.IdentityFrom(ctx))
		listener.Enter()
		context.AfterFunc(ctx, listener.Leave)
		if client := transport.Subscriber(ctx); client != nil {
			context.AfterFunc(ctx, func() { s.subscribed.Leave(client) })
		}
	})
	hooks.AddAfterSubscriptionsListen(func(
		ctx context.Context, _ any, _ *mcp.SubscriptionsListenRequest, _ *mcp.SubscriptionsListenResult,
	) {
		transport.Acknowledged(ctx)
	})
	hooks.AddOnUnregisterSession(func(_ context.Context, client server.ClientSession) { s.subscribed.Leave(client) })
}

// subscribe adds a subscription to a resource that the caller may see. For any other resource it does nothing.
func (s *Server) subscribe(ctx context.Context, uri string) {
	client := transport.Subscriber(ctx)
	l, err := parseURI(uri)
	if err != nil || client == nil {
		return
	}
	var sb core.Sandbox
	if l.sandbox != "" {
		if sb, err = s.host.Call(ctx, mcp.CallToolRequest{}).Resolve(ctx, l.sandbox); err != nil {
			return
		}
	}
	s.subscribed.mu.Lock()
	known := s.subscribed.byURI[uri]
	s.subscribed.mu.Unlock()
	fresh := &subscription{location: l, sandbox: sb}
	if l.kind == "files" && (known == nil || known.sandbox.ID != sb.ID) {
		fresh.file.seen, _ = s.look(ctx, sb, l.path)
	}
	if s.subscribed.add(uri, fresh, client) && l.kind == "files" {
		s.watchFile(fresh)
	}
}

// add adds a client's subscription. taken reports that fresh is the first subscription to that resource of that
// sandbox.
func (s *subscriptions) add(uri string, fresh *subscription, client server.ClientSession) (taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byURI == nil {
		s.byURI = map[string]*subscription{}
	}
	found := s.byURI[uri]
	if found == nil || found.sandbox.ID != fresh.sandbox.ID {
		if found != nil {
			found.file.unwatch()
			found.clients = nil
		}
		found, taken = fresh, true
		s.byURI[uri] = found
	}
	if !slices.Contains(found.clients, client) {
		found.clients = append(found.clients, client)
	}
	return taken
}

func (s *subscriptions) remove(uri string, client server.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.byURI[uri]; found != nil {
		found.clients = slices.DeleteFunc(found.clients, func(c server.ClientSession) bool { return c == client })
		if len(found.clients) == 0 {
			found.file.unwatch()
			delete(s.byURI, uri)
		}
	}
}

// join makes a client watch the list of resources.
func (s *subscriptions) join(client server.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.lists, client) {
		s.lists = append(s.lists, client)
	}
}

// Leave ends all subscriptions of a client.
func (s *subscriptions) Leave(client server.ClientSession) {
	s.mu.Lock()
	s.lists = slices.DeleteFunc(s.lists, func(c server.ClientSession) bool { return c == client })
	uris := make([]string, 0, len(s.byURI))
	for uri := range s.byURI {
		uris = append(uris, uri)
	}
	s.mu.Unlock()
	for _, uri := range uris {
		s.remove(uri, client)
	}
}

// changed notifies the clients of every resource for which fits returns true.
func (s *subscriptions) changed(fits func(*subscription) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, found := range s.byURI {
		if !fits(found) {
			continue
		}
		for _, client := range found.clients {
			send(client, mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
		}
	}
}

// listChanged notifies the clients that watch the list of resources.
func (s *subscriptions) listChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, client := range s.lists {
		send(client, mcp.MethodNotificationResourcesListChanged, nil)
	}
}

// send notifies a client, unless it is far behind already: then it will read.
func send(client server.ClientSession, method string, params map[string]any) {
	if streaming, ok := client.(server.SessionWithStreamableHTTPConfig); ok {
		streaming.UpgradeToSSEWhenReceiveNotification()
	}
	note := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: method, Params: mcp.NotificationParams{AdditionalFields: params},
	}}
	select {
	case client.NotificationChannel() <- note:
	default:
	}
}

// watch notifies subscribers of events and of file changes until the server ends.
func (s *Server) watch() {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(s.lookAtFiles)
	defer s.subscribed.Close()
	for s.ctx.Err() == nil {
		for event, err := range s.service.Records.Events(s.ctx) {
			if err != nil {
				s.log.DebugContext(s.ctx, "events", "error", err)
				continue
			}
			s.notify(event)
		}
		// The stream was too slow and may have missed any event, so the list counts as changed.
		select {
		case <-s.ctx.Done():
		case <-time.After(filePoll):
			s.subscribed.listChanged()
		}
	}
}

func (s *Server) notify(event core.Event) {
	switch event.Type {
	case core.EventState:
		if event.Sandbox == "" || !s.subscribed.news(event.Sandbox, event.State) {
			return
		}
		s.subscribed.listChanged()
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
