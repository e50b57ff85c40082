package modaltest

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/seed-0724f904/sb/core"
)

// maxMessage is the size limit of one message in Modal's clients, in bytes.
const maxMessage = 100 << 20

// Options configure a Server.
type Options struct {
	// Backend runs the sandboxes. It needs the capabilities files and tty; the Server does not close it.
	Backend core.Provider
	// Guest is the path of sb-guest for the sandboxes' kernel and processor; it watches files in them.
	Guest string
	// Dir is an existing directory for volumes, images and output while the server runs. The Backend may mount directories
	// below it in sandboxes. "" means a temporary directory without volumes.
	Dir string
	// SnapshotPrefix is the name prefix of the Server's snapshots at the Backend. The Server removes them when it ends.
	SnapshotPrefix string
	// Buckets maps names of cloud buckets to the folders that stand for them. The Backend may mount them.
	Buckets map[string]string
	// Address is the loopback address to listen on; "" chooses a free port of 127.0.0.1.
	Address string
	// Tokens maps the ids of valid tokens to their secrets; empty accepts any.
	Tokens map[string]string
	// AssertionKeys verify the assertions of OAuth clients, by the client's id.
	AssertionKeys map[string]*rsa.PublicKey
	// Secrets are the initial secrets: environment variables by the secret's name.
	Secrets map[string]map[string]string
	// Proxies are the names of the proxies in each environment. Their traffic leaves this machine like all other traffic.
	Proxies []string
	// Page is the most sandboxes in one answer; 0 means 100. Modal's own limit is unknown.
	Page int
	// Faults are the planned failures; nil means none.
	Faults *Faults
	// TokenLife is the lifetime of the server's tokens; 0 means 20 minutes.
	TokenLife time.Duration
	// Logger receives the messages that no client receives; nil discards them.
	Logger *slog.Logger
}

// Server is a running Modal server. Its methods are safe for concurrent use.
type Server struct {
	pb.UnimplementedModalClientServer

	opts     Options
	log      *slog.Logger
	listener *connections
	grpc     *grpc.Server
	signer   signer
	dir      string
	// ctx is the server's lifetime. It ends work that outlives the call that started it.
	ctx     context.Context //nolint:containedctx // it is the server's own life, not a caller's
	cancel  context.CancelFunc
	work    sync.WaitGroup
	closing sync.Once

	connector connector

	mu    sync.Mutex
	calls []Call
	// lost holds the answers that faults dropped, by the idempotency keys of their calls.
	lost map[string]any
	// kept holds the errors of sandboxes that the backend could not end.
	kept []error
	state
}

// Call is one received RPC.
type Call struct {
	// Method is its name without the service: "SandboxCreateV2".
	Method string
	Time   time.Time
}

// Start listens and serves until Close.
func Start(opts Options) (*Server, error) {
	if opts.Address == "" {
		opts.Address = "127.0.0.1:0"
	}
	if opts.TokenLife == 0 {
		opts.TokenLife = 20 * time.Minute
	}
	if opts.Faults == nil {
		opts.Faults = &Faults{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	signer, err := newSigner()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(opts.Dir, "sb-modal-")
	if err != nil {
		return nil, core.Wrap("modal.serve", "", err)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(context.Background(), "tcp", opts.Address)
	if err != nil {
		return nil, errors.Join(
			core.Errorf(core.KindConflict, "modal.serve", opts.Address, "cannot listen: %w", err), os.RemoveAll(dir),
		)
	}
	s := &Server{
		opts: opts, log: opts.Logger,
		listener: &connections{Listener: listener, faults: opts.Faults, open: map[*client]struct{}{}},
		signer:   signer, dir: dir, lost: map[string]any{}, state: newState(),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for name, env := range opts.Secrets {
		s.addSecret(defaultEnvironment, name, env)
	}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.WaitForHandlers(true),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(s.recordUnary, s.faultUnary, s.authUnary),
		grpc.ChainStreamInterceptor(s.recordStream, s.faultStream, s.authStream),
	)
	pb.RegisterModalClientServer(s.grpc, s)
	pb.RegisterTaskCommandRouterServer(s.grpc, &router{server: s})
	s.work.Go(func() { _ = s.grpc.Serve(s.listener) })
	return s, nil
}

// URL returns the value for MODAL_SERVER_URL.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// routerURL returns the address of the command router. Clients require https in it and omit TLS on loopback.
func (s *Server) routerURL() string { return "https://" + s.listener.Addr().String() }

// Close ends every sandbox and the server.
func (s *Server) Close() error {
	var err error
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Server) close() error {
	s.cancel()
	s.grpc.Stop()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := append(slices.Clone(s.kept), os.RemoveAll(s.dir))
	for id := range s.snapshots {
		errs = append(errs, s.removeSnapshot(context.Background(), id))
	}
	if checkpointer, ok := s.opts.Backend.(core.Checkpointer); ok {
		for _, kept := range s.memories {
			errs = append(errs, checkpointer.RemoveCheckpoint(context.Background(), kept.checkpoint))
		}
	}
	return errors.Join(errs...)
}

// keptCalls is the minimum number of recorded calls.
const keptCalls = 10_000

// Calls returns the RPCs since ResetCalls, in order. It returns at least the last keptCalls of them.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// ResetCalls removes the recorded RPCs.
func (s *Server) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

func (s *Server) record(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) >= 2*keptCalls {
		s.calls = slices.Clone(s.calls[keptCalls:])
	}
	s.calls = append(s.calls, Call{Method: method, Time: time.Now()})
}

func (s *Server) recordUnary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	s.record(method(info.FullMethod))
	reply, err := next(ctx, request)
	if err != nil {
		s.log.DebugContext(ctx, "call failed", "method", info.FullMethod, "error", err)
	}
	return reply, err
}

func (s *Server) recordStream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	s.record(method(info.FullMethod))
	return next(srv, stream)
}

// method returns the last part of a gRPC method's name.
func method(full string) string {
	for i := len(full) - 1; i >= 0; i-- {
		if full[i] == '/' {
			return full[i+1:]
		}
	}
	return full
}

// newID returns an id in Modal's form: a prefix and random letters.
func newID(prefix string) string { return prefix + randomText(v1Alphabet, 22) }

// unix converts t to the form of Modal's messages, in seconds.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / float64(time.Second)
}

// String returns the server's name for logs.
func (s *Server) String() string { return fmt.Sprintf("modaltest at %s", s.URL()) }
