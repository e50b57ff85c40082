package client

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
)

// throttlePatience is the longest time that the SDK retries a throttled call.
const throttlePatience = 2 * time.Minute

// Client is one connection to Modal's control plane. Its methods are safe for concurrent use.
type Client struct {
	SDK     *sdk.Client
	Account Account
	Cache   *cache

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// Open returns a client with the credentials that Modal's own tools use. It makes no call. Ids are cached below
// cacheDir; "" caches none.
func Open(cacheDir string) (*Client, error) {
	account := FindAccount(os.LookupEnv)
	if account.Err != nil {
		return nil, account.Err
	}
	if account.TokenID == "" {
		return nil, NoCredentials(account)
	}
	c := &Client{Account: account, Cache: openCache(cacheDir, account)}
	patience := throttlePatience
	made, err := sdk.NewClientWithOptions(&sdk.ClientParams{
		Logger: slog.New(slog.DiscardHandler), MaxThrottleWait: &patience,
		GRPCUnaryInterceptors:  []grpc.UnaryClientInterceptor{c.unary},
		GRPCStreamInterceptors: []grpc.StreamClientInterceptor{c.stream},
	})
	if err != nil {
		return nil, Classify("connect", "", err)
	}
	c.SDK = made
	return c, nil
}

// Witness receives the replies to one operation's calls, which the SDK does not return.
type Witness struct {
	Reply func(any)
	// Logs receives an image's build log.
	Logs func(string)
}

type witnessKey struct{}

// WithWitness returns a context that passes the replies and logs of its calls to w.
func WithWitness(ctx context.Context, w Witness) context.Context {
	return context.WithValue(ctx, witnessKey{}, w)
}

type probeKey struct{}

// errProbed ends a call that was made only to get the connection.
var errProbed = errors.New("the connection is known")

// unary intercepts every call of the SDK.
func (c *Client) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	if probe, _ := ctx.Value(probeKey{}).(bool); probe && method != pb.ModalClient_AuthTokenGet_FullMethodName {
		return errProbed
	}
	err := invoke(ctx, method, request, reply, conn, opts...)
	if w, ok := ctx.Value(witnessKey{}).(Witness); ok && err == nil && w.Reply != nil {
		w.Reply(reply)
	}
	return err
}

// stream intercepts every stream of the SDK.
func (c *Client) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	if w, ok := ctx.Value(witnessKey{}).(Witness); ok && err == nil && w.Logs != nil {
		return &buildStream{ClientStream: stream, logs: w.Logs}, nil
	}
	return stream, err
}

// buildStream passes on an image's build log, which the SDK ignores.
type buildStream struct {
	grpc.ClientStream
	logs func(string)
}

func (b *buildStream) RecvMsg(message any) error {
	err := b.ClientStream.RecvMsg(message)
	if part, ok := message.(*pb.ImageJoinStreamingResponse); ok && err == nil {
		for _, log := range part.GetTaskLogs() {
			b.logs(log.GetData())
		}
	}
	return err
}

// Raw returns the control plane's own interface, over the SDK's connection with its headers,
// credentials and retries. The first use fetches the account's short-lived token.
func (c *Client) Raw(ctx context.Context) (pb.ModalClientClient, error) {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn == nil {
		_, err := c.SDK.Apps.FromName(context.WithValue(ctx, probeKey{}, true), "-", nil)
		if err != nil && !errors.Is(err, errProbed) {
			return nil, err
		}
		c.mu.Lock()
		conn = c.conn
		c.mu.Unlock()
	}
	if conn == nil {
		return nil, core.Errorf(core.KindInternal, "modal.connect", "", "the SDK made no connection")
	}
	return pb.NewModalClientClient(conn), nil
}
