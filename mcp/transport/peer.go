package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	// MaxConcurrent bounds the concurrent requests of one client.
	MaxConcurrent = 64
	// notificationQueue bounds the notifications that wait for delivery; further ones are dropped.
	notificationQueue = 256
)

// peer is a client of sb's own transports: the data that it declared, and the server's requests that it has not
// answered.
type peer struct {
	id string
	// own is the way for messages that belong to no call.
	own *Way
	// slots has an entry for each request in progress.
	slots       chan struct{}
	initialized atomic.Bool
	requests    atomic.Int64

	mu           sync.Mutex
	level        mcp.LoggingLevel
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	pending      map[int64]chan rpcAnswer
	underWay     map[string]*underWay // by the id as received
}

// underWay is a request in progress.
type underWay struct{ cancel context.CancelFunc }

func newPeer(id string) *peer {
	p := &peer{
		id: id, slots: make(chan struct{}, MaxConcurrent), pending: map[int64]chan rpcAnswer{},
		underWay: map[string]*underWay{},
	}
	p.own = p.newWay()
	return p
}

// Enter takes a slot for a request; Leave returns it. It reports false if no slot is free: waiting for one would delay
// the reading of cancellations.
func (p *peer) Enter() bool {
	select {
	case p.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p *peer) Leave() { <-p.slots }

// begin registers a request until end is called. It runs before the next message is taken, so that an immediate
// cancellation finds the request.
func (p *peer) begin(ctx context.Context, id json.RawMessage) (handled context.Context, end func()) {
	handled, cancel := context.WithCancel(ctx)
	request := &underWay{cancel}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay[string(id)] = request
	return handled, func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.underWay[string(id)] == request { // a client may use an id twice
			delete(p.underWay, string(id))
		}
	}
}

// cancelled ends the request that a notification names. One that has ended already is no error.
func (p *peer) cancelled(notification json.RawMessage) {
	var named struct {
		Params struct {
			ID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	if json.Unmarshal(notification, &named) != nil {
		return
	}
	p.mu.Lock()
	request := p.underWay[string(named.Params.ID)]
	p.mu.Unlock()
	if request != nil {
		request.cancel()
	}
}

type rpcAnswer struct {
	result json.RawMessage
	err    *rpcError
}

// answered passes a client's answer to the request that waits for it. It ignores an answer that no request waits for.
func (p *peer) answered(e envelope) {
	var number int64
	if json.Unmarshal(e.ID, &number) != nil {
		return
	}
	p.mu.Lock()
	waiting := p.pending[number]
	delete(p.pending, number)
	p.mu.Unlock()
	if waiting != nil {
		waiting <- rpcAnswer{e.Result, e.Error}
	}
}

// Way is one connection of mcp-go to a peer: the peer's own, or that of one call. deliver sends its messages in order.
type Way struct {
	*peer
	notifications chan mcp.JSONRPCNotification
	outgoing      chan any
	// listens is the id of the request that opened this way for subscriptions; nil for other ways.
	listens json.RawMessage
}

var (
	_ server.SessionWithLogging     = (*Way)(nil)
	_ server.SessionWithClientInfo  = (*Way)(nil)
	_ server.SessionWithElicitation = (*Way)(nil)
	_ server.SessionWithRoots       = (*Way)(nil)
	_ server.SessionWithSampling    = (*Way)(nil)
)

func (p *peer) newWay() *Way {
	return &Way{peer: p, notifications: make(chan mcp.JSONRPCNotification, notificationQueue), outgoing: make(chan any)}
}

// deliver is the only reader of a way. Before a message it emits the notifications that were sent earlier. Before it
// returns, it emits those that were sent before ended closed. A later message waits until its sender's context ends.
func (w *Way) deliver(ended <-chan struct{}, emit func(message any)) {
	flush := func() {
		for {
			select {
			case note := <-w.notifications:
				emit(note)
			default:
				return
			}
		}
	}
	for {
		select {
		case note := <-w.notifications:
			emit(note)
		case message := <-w.outgoing:
			flush()
			emit(message)
		case <-ended:
			flush()
			return
		}
	}
}

// Subscriber returns the session that receives the changes for a subscription: that of the request that listens, else
// the client's own, not that of the call.
func Subscriber(ctx context.Context) server.ClientSession {
	client := server.ClientSessionFromContext(ctx)
	if call, ours := client.(*Way); ours && call.listens == nil {
		return call.own
	}
	return client
}

// The methods of server.ClientSession, server.SessionWithLogging and server.SessionWithClientInfo.

func (p *peer) Initialize()       { p.initialized.Store(true) }
func (p *peer) Initialized() bool { return p.initialized.Load() }
func (p *peer) SessionID() string { return p.id }

// NotificationChannel implements server.ClientSession.
func (w *Way) NotificationChannel() chan<- mcp.JSONRPCNotification { return w.notifications }

func (p *peer) SetLogLevel(level mcp.LoggingLevel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = level
}

func (p *peer) GetLogLevel() mcp.LoggingLevel {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.level == "" {
		return mcp.LoggingLevelError
	}
	return p.level
}

func (p *peer) GetClientInfo() mcp.Implementation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

func (p *peer) SetClientInfo(info mcp.Implementation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = info
}

func (p *peer) GetClientCapabilities() mcp.ClientCapabilities {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.capabilities
}

func (p *peer) SetClientCapabilities(capabilities mcp.ClientCapabilities) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capabilities = capabilities
}

// request sends a request to the client and waits for its answer.
func (w *Way) request(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	id := w.requests.Add(1)
	answer := make(chan rpcAnswer, 1)
	w.mu.Lock()
	w.pending[id] = answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.pending, id)
	}()
	select {
	case w.outgoing <- rpcRequest(id, method, params):
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case got := <-answer:
		if got.err != nil {
			return fmt.Errorf("the client refused %s: %s (%d)", method, got.err.Message, got.err.Code)
		}
		return json.Unmarshal(got.result, result)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RequestElicitation implements server.SessionWithElicitation.
func (w *Way) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	result := &mcp.ElicitationResult{}
	return result, w.request(ctx, mcp.MethodElicitationCreate, request.Params, result)
}

// ListRoots implements server.SessionWithRoots.
func (w *Way) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	result := &mcp.ListRootsResult{}
	return result, w.request(ctx, mcp.MethodListRoots, struct{}{}, result) // the Go SDK refuses one without
}

// RequestSampling implements server.SessionWithSampling.
func (w *Way) RequestSampling(ctx context.Context, request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	result := &mcp.CreateMessageResult{}
	err := w.request(ctx, mcp.MethodSamplingCreateMessage, request.CreateMessageParams, result)
	if err == nil {
		result.Content, err = mcp.ParseSamplingContent(result.Content)
	}
	return result, err
}
