package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/mcp/auth"
)

const (
	// maxMessage bounds one message from a client.
	maxMessage = 64 << 20
	// DrainTime bounds the requests that continue after the client's last message.
	DrainTime = 5 * time.Second
)

// ServeStdio serves one client on two streams until in ends or ctx does. out carries only protocol messages. It
// replaces mcp-go's transport, which keeps its session in a package variable and bounds no message. There,
// notifications can overtake their result, and subscriptions are missing. A read that still blocks when ctx ends is
// abandoned.
func (e *Endpoint) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	client, gone := context.WithCancel(ctx)
	defer gone()
	input, inputEnded := context.WithCancel(client)
	defer inputEnded()
	t := &stdio{endpoint: e, peer: newPeer("stdio-" + rand.Text()[:8]), out: out, gone: gone, input: input}
	if err := e.Protocol.RegisterSession(client, t.peer.own); err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	requests := auth.WithClient(e.Protocol.WithContext(client, t.peer.own), client)
	ended, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		t.peer.own.deliver(ended, t.write(client))
	}()
	err := t.read(requests, in)
	inputEnded()
	t.drain(client)
	gone()
	t.handlers.Wait()
	close(ended)
	<-written
	e.Protocol.UnregisterSession(context.WithoutCancel(ctx), t.peer.id)
	if ctx.Err() != nil {
		return nil // the caller ended it
	}
	return err
}

// stdio is one client on two streams.
type stdio struct {
	endpoint *Endpoint
	peer     *peer
	out      io.Writer
	gone     context.CancelFunc
	input    context.Context //nolint:containedctx // ends with the client's last message, and with it subscriptions
	handlers sync.WaitGroup
}

// write returns a function that writes messages, one per line. The first failed write ends the client. After the
// client's context ends, a write may block for DrainTime, and is then abandoned.
func (t *stdio) write(client context.Context) func(message any) {
	broken := false
	return func(message any) {
		encoded := t.endpoint.encode(client, message)
		if broken || encoded == nil {
			return
		}
		written := make(chan error, 1)
		go func() {
			_, err := t.out.Write(append(encoded, '\n'))
			written <- err
		}()
		if broken = !taken(client, written); broken {
			t.gone()
		}
	}
}

// taken reports whether a message was written.
func taken(client context.Context, written <-chan error) bool {
	select {
	case err := <-written:
		return err == nil
	case <-client.Done():
	}
	timer := time.NewTimer(DrainTime)
	defer timer.Stop()
	select {
	case err := <-written:
		return err == nil
	case <-timer.C:
		return false
	}
}

// read handles messages until the stream ends. A separate goroutine reads the stream, since a read cannot be
// interrupted.
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

// tooLong replaces a message that was too long. It is not valid JSON, so its answer is a parse error.
const tooLong = "{too long"

// readLine reads one line without its end. It skips a line that is too long, and returns errTooLong.
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

// take handles one message: answers and notifications at once, each request in its own goroutine.
func (t *stdio) take(ctx context.Context, line []byte) {
	if len(line) == 0 {
		return
	}
	var head envelope
	if json.Unmarshal(line, &head) == nil && head.answers() {
		t.peer.answered(head)
		return
	}
	switch {
	case len(head.ID) == 0 && head.Method == string(mcp.MethodNotificationCancelled):
		t.peer.cancelled(line)
	case len(head.ID) == 0 || head.Method == string(mcp.MethodInitialize):
		t.handle(ctx, head.ID, line)
	case !t.peer.Enter():
		t.peer.own.outgoing <- tooBusy(head.ID)
	default:
		ctx, end := t.peer.begin(ctx, head.ID)
		t.handlers.Go(func() {
			defer t.peer.Leave()
			defer end()
			if head.Method == string(mcp.MethodSubscriptionsListen) {
				t.listen(ctx, head.ID, line)
				return
			}
			t.handle(ctx, head.ID, line)
		})
	}
}

func (t *stdio) handle(ctx context.Context, id, line json.RawMessage) {
	if response := t.endpoint.handleMessage(ctx, id, line); response != nil {
		t.peer.own.outgoing <- response
	}
}

// listen handles a request for subscriptions. Each of their notifications names the request.
func (t *stdio) listen(ctx context.Context, id, line json.RawMessage) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.input, cancel)()
	way := t.peer.newWay()
	way.listens = id
	ended, delivered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(delivered)
		way.deliver(ended, func(message any) {
			if note, is := message.(mcp.JSONRPCNotification); is {
				message = subscribed(note, id)
			}
			t.peer.own.outgoing <- message
		})
	}()
	response := t.endpoint.handleMessage(t.endpoint.Protocol.WithContext(ctx, way), id, line)
	close(ended)
	<-delivered
	if response != nil {
		t.peer.own.outgoing <- response
	}
}

// drain gives requests some time to end: a client may close its side and still read the answers.
func (t *stdio) drain(client context.Context) {
	ended := make(chan struct{})
	go func() {
		t.handlers.Wait()
		close(ended)
	}()
	timer := time.NewTimer(DrainTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-client.Done():
	}
}
