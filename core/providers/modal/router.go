package modal

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

const (
	// attempts is the most retries of a call without progress.
	attempts = 8
	// firstDelay and lastDelay are the bounds of the delay between retries.
	firstDelay = 20 * time.Millisecond
	lastDelay  = 2 * time.Second
	maxMessage = 100 << 20
	window     = 16 << 20
)

// router is the connection to the machine that runs one sandbox.
type router struct {
	client  *client.Client
	sandbox string
	task    string
	address string
	conn    *grpc.ClientConn
	stub    pb.TaskCommandRouterClient
	// meter counts the traffic of the connection; it may be nil.
	meter *meter

	mu    sync.Mutex
	token string
}

func (r *router) close() { _ = r.conn.Close() }

// remember stores a connection to a new sandbox with the access data of the launch.
func (p *Provider) remember(id string, c *client.Client, task string, access *pb.CommandRouterAccess) {
	if task == "" || access == nil {
		return
	}
	if r, err := dial(c, id, task, access.GetUrl(), access.GetJwt(), nil); err == nil {
		p.keep(id, r)
	}
}

// keep stores the connection of a sandbox unless there is one already. It returns the stored one.
func (p *Provider) keep(id string, r *router) *router {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.routers[id]; old != nil {
		r.close()
		return old
	}
	p.routers[id] = r
	return r
}

// forget closes the connection to a sandbox.
func (p *Provider) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.routers[id]; r != nil {
		r.close()
		delete(p.routers, id)
	}
}

// router returns the connection to a sandbox and creates it at first use. It requests the task and the access data in
// parallel if Modal allows it. If ended is true, the sandbox may have ended.
func (p *Provider) router(ctx context.Context, id string, ended bool) (*router, error) {
	p.mu.Lock()
	known := p.routers[id]
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	c, err := p.connect()
	if err != nil {
		return nil, err
	}
	raw, err := c.Raw(ctx)
	if err != nil {
		return nil, client.Classify("exec", id, err)
	}
	task := c.Cache.Get(client.CachedTasks, id)
	var address, token string
	if firstGeneration(id) {
		if task == "" {
			task, err = askTask(ctx, raw, id)
		}
		if err == nil {
			address, token, err = askWay(ctx, raw, id, task)
		}
	} else {
		err = client.Together(
			func() (err error) {
				if task == "" {
					task, err = askTask(ctx, raw, id)
				}
				return err
			},
			func() (err error) { address, token, err = askWay(ctx, raw, id, ""); return err },
		)
	}
	if err != nil {
		if errors.Is(err, errFinished) && !ended {
			return nil, p.notRunning(ctx, id)
		}
		return nil, p.missing(c, "exec", id, err)
	}
	c.Cache.Put(client.CachedTasks, id, task)
	r, err := dial(c, id, task, address, token, nil)
	if err != nil {
		return nil, err
	}
	return p.keep(id, r), nil
}

// errFinished is the error for a sandbox that no longer has a task.
var errFinished = errors.New("the sandbox has finished")

// askTask returns the task of a sandbox. It waits until the sandbox is scheduled.
func askTask(ctx context.Context, raw pb.ModalClientClient, id string) (string, error) {
	request := pb.SandboxGetTaskIdRequest_builder{SandboxId: id}.Build()
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		var reply *pb.SandboxGetTaskIdResponse
		var err error
		if firstGeneration(id) {
			reply, err = raw.SandboxGetTaskId(ctx, request)
		} else {
			reply, err = raw.SandboxGetTaskIdV2(ctx, request)
		}
		switch {
		case err != nil:
			return "", err
		case reply.GetTaskId() != "":
			return reply.GetTaskId(), nil
		case reply.GetTaskResult() != nil:
			return "", errFinished
		}
		if err := sleep(ctx, delay); err != nil {
			return "", err
		}
	}
}

// askWay returns the address of the server that runs a sandbox's commands, and a token for it.
func askWay(ctx context.Context, raw pb.ModalClientClient, id, task string) (address, token string, err error) {
	if firstGeneration(id) {
		reply, err := raw.TaskGetCommandRouterAccess(ctx, pb.TaskGetCommandRouterAccessRequest_builder{TaskId: task}.Build())
		return reply.GetUrl(), reply.GetJwt(), err
	}
	reply, err := raw.SandboxGetCommandRouterAccess(
		ctx, pb.SandboxGetCommandRouterAccessRequest_builder{SandboxId: &id}.Build(),
	)
	return reply.GetUrl(), reply.GetJwt(), err
}

// dial creates a router, which connects with its first call. It omits TLS only if the control plane is also on this
// machine. meter may be nil.
func dial(c *client.Client, id, task, address, token string, meter *meter) (*router, error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "https" {
		return nil, core.Errorf(
			core.KindInternal, "modal.exec", id, "Modal sent the invalid router address %q", address,
		)
	}
	port := at.Port()
	if port == "" {
		port = "443"
	}
	secure := credentials.NewTLS(nil)
	if server, err := url.Parse(c.Account.Server); err == nil && server.Scheme == "http" &&
		loopback(server.Hostname()) && loopback(at.Hostname()) {
		secure = insecure.NewCredentials()
	}
	if meter != nil {
		secure = meteredCredentials{secure, meter}
	}
	conn, err := grpc.NewClient(net.JoinHostPort(at.Hostname(), port),
		grpc.WithTransportCredentials(secure), grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}))
	if err != nil {
		return nil, client.Classify("exec", id, err)
	}
	return &router{
		client: c, sandbox: id, task: task, address: address, conn: conn, stub: pb.NewTaskCommandRouterClient(conn),
		meter: meter, token: token,
	}, nil
}

// metered creates another connection to the same server, which meter counts. The caller closes it.
func (r *router) metered(meter *meter) (*router, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return dial(r.client, r.sandbox, r.task, r.address, r.token, meter)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// authorized adds the token.
func (r *router) authorized(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+r.token)
}

// refresh gets a new token.
func (r *router) refresh(ctx context.Context) error {
	raw, err := r.client.Raw(ctx)
	if err != nil {
		return err
	}
	_, token, err := askWay(ctx, raw, r.sandbox, r.task)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token = token
	return nil
}

// passing reports whether a retry may succeed after a failure with this code.
func passing(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled, codes.DeadlineExceeded, codes.Aborted:
		return true
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.ResourceExhausted,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.DataLoss, codes.Unauthenticated:
	}
	return false
}

// patience counts the attempts of a call that may be retried.
type patience struct {
	router *router
	tries  int
	delay  time.Duration
	fresh  bool // the token was renewed since the last progress
}

func (r *router) patient() *patience { return &patience{router: r, delay: firstDelay} }

// progress resets the count after a success.
func (p *patience) progress() { *p = patience{router: p.router, delay: firstDelay} }

// again waits before the next attempt. It returns an error if there is none.
func (p *patience) again(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code := status.Code(err)
	if code == codes.Unauthenticated && !p.fresh {
		p.fresh = true
		return p.router.refresh(ctx)
	}
	if !passing(code) || p.tries >= attempts {
		return err
	}
	p.tries++
	delay := p.delay + rand.N(p.delay) //nolint:gosec // jitter is public
	p.delay = min(2*p.delay, lastDelay)
	return sleep(ctx, delay)
}

// call makes an idempotent call and retries it after passing failures.
func call[T any](ctx context.Context, r *router, do func(context.Context) (T, error)) (T, error) {
	for p := r.patient(); ; {
		reply, err := do(r.authorized(ctx))
		if err == nil {
			return reply, nil
		}
		if err := p.again(ctx, err); err != nil {
			return reply, err
		}
	}
}
