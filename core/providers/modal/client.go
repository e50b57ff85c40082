package modal

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

// throttlePatience is how long the SDK goes on when Modal asks it to come again later.
const throttlePatience = 2 * time.Minute

// client is one connection to Modal's control plane.
type client struct {
	sdk     *sdk.Client
	account Account
	cache   *cache

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// connect returns the client, and makes it when it is first needed. No call is made yet.
func (p *Provider) connect() (*client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	account := FindAccount(os.LookupEnv)
	if account.Err != nil {
		return nil, account.Err
	}
	if account.TokenID == "" {
		return nil, noCredentials(account)
	}
	c := &client{account: account, cache: openCache(p.opts.CacheDir, account)}
	patience := throttlePatience
	made, err := sdk.NewClientWithOptions(&sdk.ClientParams{
		Logger: slog.New(slog.DiscardHandler), MaxThrottleWait: &patience,
		GRPCUnaryInterceptors:  []grpc.UnaryClientInterceptor{c.unary},
		GRPCStreamInterceptors: []grpc.StreamClientInterceptor{c.stream},
	})
	if err != nil {
		return nil, classify("connect", "", err)
	}
	c.sdk, p.client = made, c
	return c, nil
}

// witness is told the replies to one operation's calls, which the SDK does not hand on.
type witness struct {
	reply func(any)
	// logs gets an image's build log.
	logs func(string)
}

type witnessKey struct{}

func withWitness(ctx context.Context, w witness) context.Context {
	return context.WithValue(ctx, witnessKey{}, w)
}

type probeKey struct{}

// errProbed ends a call that was made only to learn the connection.
var errProbed = errors.New("the connection is known")

// unary sees every call of the SDK.
func (c *client) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	if probe, _ := ctx.Value(probeKey{}).(bool); probe && method != pb.ModalClient_AuthTokenGet_FullMethodName {
		return errProbed
	}
	err := invoke(ctx, method, request, reply, conn, opts...)
	if w, ok := ctx.Value(witnessKey{}).(witness); ok && err == nil && w.reply != nil {
		w.reply(reply)
	}
	return err
}

// stream sees every stream of the SDK.
func (c *client) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	if w, ok := ctx.Value(witnessKey{}).(witness); ok && err == nil && w.logs != nil {
		return &buildStream{ClientStream: stream, logs: w.logs}, nil
	}
	return stream, err
}

// buildStream hands an image's build log on, which the SDK reads over.
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

// raw returns the control plane's own interface, over the SDK's connection with its headers,
// credentials and retries. The first use fetches the account's short-lived token.
func (c *client) raw(ctx context.Context) (pb.ModalClientClient, error) {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn == nil {
		_, err := c.sdk.Apps.FromName(context.WithValue(ctx, probeKey{}, true), "-", nil)
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
