package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	// maxMessage bounds one message from a client.
	maxMessage = 64 << 20
	// maxConcurrent bounds the requests of one client that are handled at the same time.
	maxConcurrent = 64
	// notificationQueue is how many notifications a slow client may be behind.
	notificationQueue = 256
	// drainTime is how long requests may go on after the client sent its last message.
	drainTime = 5 * time.Second
)

// ServeStdio serves one client on two streams, of which out carries nothing but protocol, until in ends
// or ctx does. It is not mcp-go's own transport: that one keeps its session in a package variable, lets
// notifications pass the result they belong to, has no subscriptions, and no bound on a message's size.
// A read that blocks when ctx ends is left alone.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	client, gone := context.WithCancel(ctx)
	defer gone()
	t := &stdio{server: s, out: out, gone: gone, outgoing: make(chan any), slots: make(chan struct{}, maxConcurrent)}
	t.session = &stdioSession{id: "stdio-" + randomText()[:8], transport: t, notifications: make(chan mcp.JSONRPCNotification, notificationQueue), pending: map[int64]chan rpcAnswer{}}
	if err := s.mcp.RegisterSession(client, t.session); err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	requests := withClient(s.mcp.WithContext(client, t.session), client)
	written := make(chan struct{})
	go t.write(client, written)
	err := t.read(requests, in)
	t.drain(client)
	gone()
	t.handlers.Wait()
	close(t.outgoing)
	<-written
	s.mcp.UnregisterSession(context.WithoutCancel(ctx), t.session.id)
	if ctx.Err() != nil {
		return nil // the caller ended it
	}
	return err
}

// stdio is one client on two streams.
type stdio struct {
	server   *Server
	session  *stdioSession
	out      io.Writer
	gone     context.CancelFunc
	outgoing chan any
	slots    chan struct{}
	handlers sync.WaitGroup
}

// write is the only writer. It writes every notification that was sent before a message ahead of it.
func (t *stdio) write(client context.Context, written chan<- struct{}) {
	defer close(written)
	broken := false
	emit := func(message any) {
		if broken {
			return
		}
		encoded, err := json.Marshal(message)
		if err != nil {
			t.server.log.ErrorContext(client, "a message cannot be encoded", "error", err)
			return
		}
		if _, err := t.out.Write(append(encoded, '\n')); err != nil {
			broken = true
			t.gone()
		}
	}
	for {
		select {
		case note := <-t.session.notifications:
			emit(note)
		case message, open := <-t.outgoing:
			for waiting := true; waiting; {
				select {
				case note := <-t.session.notifications:
					emit(note)
				default:
					waiting = false
				}
			}
			if !open {
				return
			}
			emit(message)
		}
	}
}

// read takes messages until the stream's end. The reader of the stream itself is on its own, for a read cannot be called back.
func (t *stdio) read(ctx context.Context, in io.Reader) error {
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go func() {
		reader := bufio.NewReaderSize(in, 64<<10)
		for {
			line, err := readLine(reader)
			if errors.Is(err, errTooLong) {
				line, err = []byte(tooLong), nil
			}
			if err != nil {
				failed <- err
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("mcp: reading: %w", err)
		case line := <-lines:
			t.take(ctx, line)
		}
	}
}

var errTooLong = errors.New("a message is too long")

// tooLong stands for a message that was: it is no JSON, and so is answered as such.
const tooLong = "{too long"

// readLine reads one line without its end. A line that is too long is read over.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
			if long = len(line) > maxMessage; long {
				line = nil
			}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		case long:
			return nil, errTooLong
		}
		return bytes.TrimSpace(line), nil
	}
}

// take handles one message: answers to the server's own requests and notifications at once, requests on their own.
func (t *stdio) take(ctx context.Context, line []byte) {
	if len(line) == 0 {
		return
	}
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	if json.Unmarshal(line, &head) == nil && head.Method == "" && len(head.ID) > 0 && (head.Result != nil || head.Error != nil) {
		t.session.answered(head.ID, rpcAnswer{head.Result, head.Error})
		return
	}
	if len(head.ID) == 0 || head.Method == string(mcp.MethodInitialize) {
		t.handle(ctx, line)
		return
	}
	select {
	case t.slots <- struct{}{}:
	default: // waiting here would keep cancellations from being read
		t.outgoing <- mcp.NewJSONRPCError(mcp.NewRequestId(head.ID), mcp.INTERNAL_ERROR, "too many requests at the same time", nil)
		return
	}
	t.handlers.Go(func() {
		defer func() { <-t.slots }()
		t.handle(ctx, line)
	})
}

func (t *stdio) handle(ctx context.Context, line []byte) {
	response := t.server.handleMessage(ctx, line)
	if response == nil {
		return
	}
	t.outgoing <- response
}

// handleMessage is mcp-go's, where a panic is the end of one request and not of the server.
func (s *Server) handleMessage(ctx context.Context, message json.RawMessage) (response mcp.JSONRPCMessage) {
	defer func() {
		if r := recover(); r != nil {
			s.log.ErrorContext(ctx, "a request panicked", "panic", r)
			var head struct {
				ID any `json:"id"`
			}
			_ = json.Unmarshal(message, &head)
			response = mcp.NewJSONRPCError(mcp.NewRequestId(head.ID), mcp.INTERNAL_ERROR, "internal error", nil)
		}
	}()
	return s.mcp.HandleMessage(ctx, message)
}

// drain lets requests end by themselves for a while: a client may close its side and still read the answers.
func (t *stdio) drain(client context.Context) {
	ended := make(chan struct{})
	go func() {
		t.handlers.Wait()
		close(ended)
	}()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-client.Done():
	}
}

// stdioSession is the session of a client on two streams.
type stdioSession struct {
	id            string
	transport     *stdio
	notifications chan mcp.JSONRPCNotification
	initialized   atomic.Bool
	requests      atomic.Int64

	mu           sync.Mutex
	level        mcp.LoggingLevel
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	pending      map[int64]chan rpcAnswer
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type rpcAnswer struct {
	result json.RawMessage
	err    *rpcError
}

var (
	_ server.SessionWithLogging     = (*stdioSession)(nil)
	_ server.SessionWithClientInfo  = (*stdioSession)(nil)
	_ server.SessionWithElicitation = (*stdioSession)(nil)
	_ server.SessionWithRoots       = (*stdioSession)(nil)
)

func (s *stdioSession) Initialize()       { s.initialized.Store(true) }
func (s *stdioSession) Initialized() bool { return s.initialized.Load() }
func (s *stdioSession) SessionID() string { return s.id }

func (s *stdioSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notifications }

func (s *stdioSession) SetLogLevel(level mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}

func (s *stdioSession) GetLogLevel() mcp.LoggingLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.level == "" {
		return mcp.LoggingLevelError
	}
	return s.level
}

func (s *stdioSession) GetClientInfo() mcp.Implementation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

func (s *stdioSession) SetClientInfo(info mcp.Implementation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
}

func (s *stdioSession) GetClientCapabilities() mcp.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

func (s *stdioSession) SetClientCapabilities(capabilities mcp.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capabilities = capabilities
}

// answered hands a client's answer to whoever waits for it.
func (s *stdioSession) answered(id json.RawMessage, answer rpcAnswer) {
	var number int64
	if json.Unmarshal(id, &number) != nil {
		return
	}
	s.mu.Lock()
	waiting := s.pending[number]
	delete(s.pending, number)
	s.mu.Unlock()
	if waiting != nil {
		waiting <- answer
	}
}

// request asks the client for something.
func (s *stdioSession) request(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	id := s.requests.Add(1)
	answer := make(chan rpcAnswer, 1)
	s.mu.Lock()
	s.pending[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, id)
	}()
	message := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	select {
	case s.transport.outgoing <- message:
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
func (s *stdioSession) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	result := &mcp.ElicitationResult{}
	return result, s.request(ctx, mcp.MethodElicitationCreate, request.Params, result)
}

// ListRoots implements server.SessionWithRoots.
func (s *stdioSession) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	result := &mcp.ListRootsResult{}
	return result, s.request(ctx, mcp.MethodListRoots, nil, result)
}
