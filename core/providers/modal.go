package providers

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// ModalServer is a Modal endpoint whose sandboxes run on this machine.
type ModalServer struct {
	server  *modaltest.Server
	backend core.Provider
	// dir holds its files; lock says that they are somebody's.
	dir  string
	lock *flock.Flock
}

// ModalServerOptions configure a ModalServer.
type ModalServerOptions struct {
	// Address is where to listen, on loopback; "" is a free port.
	Address string
	// TokenID and TokenSecret are what clients must show; empty accepts any.
	TokenID, TokenSecret string
	// Secrets are there from the beginning: environment variables by the secret's name.
	Secrets map[string]map[string]string
	// Buckets are directories that stand for cloud buckets, by the bucket's name.
	Buckets map[string]string
	// Logger is told what a client asked for that nothing follows from; nil discards.
	Logger *slog.Logger
	// Latency delays each call, Scheduling the beginning of each sandbox.
	Latency, Scheduling time.Duration
	// TokenLife is how long the short-lived tokens are valid that clients are given; 0 is Modal's.
	TokenLife time.Duration
	// Faults are what goes wrong, as ParseModalFault reads them.
	Faults []ModalFault
	// Proxies are the names of Modal proxies that are there. What goes through one leaves from this machine.
	Proxies []string
}

// ModalFault makes the next calls of one RPC fail.
type ModalFault = modaltest.PlannedFault

// ParseModalFault reads METHOD=CODE[,times=N][,retry-after=DURATION]; CODE is a gRPC status: UNAVAILABLE.
func ParseModalFault(text string) (ModalFault, error) { return modaltest.ParseFault(text) }

// ServeModal starts a Modal endpoint.
func ServeModal(ctx context.Context, o Options, m ModalServerOptions) (*ModalServer, error) {
	dir, lock, err := serveDir(filepath.Join(o.CacheDir, "modal-serve"))
	if err != nil {
		return nil, err
	}
	s := &ModalServer{dir: dir, lock: lock}
	if err := s.start(ctx, o, m); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// serveDir makes a directory for a server's files, and removes those of servers that were killed.
func serveDir(parent string) (dir string, lock *flock.Flock, err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, core.Wrap("modal.serve", parent, err)
	}
	others, err := filepath.Glob(filepath.Join(parent, "*.lock"))
	if err != nil {
		return "", nil, core.Wrap("modal.serve", parent, err)
	}
	for _, other := range others {
		left := flock.New(other)
		if taken, err := left.TryLock(); err != nil || !taken {
			continue
		}
		// The lock's file goes last: whatever is killed in between, the next one finds it.
		if err := os.RemoveAll(strings.TrimSuffix(other, ".lock")); err == nil {
			_ = os.Remove(other)
		}
		_ = left.Close()
	}
	lock = flock.New(filepath.Join(parent, strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36)+".lock"))
	if taken, err := lock.TryLock(); err != nil || !taken {
		return "", nil, core.Errorf(core.KindUnavailable, "modal.serve", parent, "cannot be locked: %w", err)
	}
	dir = strings.TrimSuffix(lock.Path(), ".lock")
	return dir, lock, core.Wrap("modal.serve", dir, os.Mkdir(dir, 0o700))
}

func (s *ModalServer) start(ctx context.Context, o Options, m ModalServerOptions) (err error) {
	shown := []string{s.dir}
	for name, dir := range m.Buckets {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return core.Errorf(core.KindUsage, "modal.serve", name, "the bucket's directory %s is not there", dir)
		}
		shown = append(shown, dir)
	}
	s.backend, err = local.Factory(local.Options{
		StateDir: o.StateDir, RuntimeDir: o.RuntimeDir, CacheDir: o.CacheDir, Runtime: o.Runtime, FreezeAfter: o.FreezeAfter, LogLimit: o.LogLimit,
		HostDirs: shown,
	}).Open()
	if err != nil {
		return err
	}
	if err := s.backend.Check(ctx); err != nil {
		return err
	}
	guest := ""
	if provider, ok := s.backend.(interface {
		Guest(ctx context.Context) (string, error)
	}); ok {
		if guest, err = provider.Guest(ctx); err != nil {
			return err
		}
	}
	options := modaltest.Options{Backend: s.backend, Guest: guest, Dir: s.dir, Buckets: m.Buckets, Address: m.Address, Secrets: m.Secrets, Faults: &modaltest.Faults{}}
	options.Faults.SetLatency(m.Latency)
	options.Faults.SetScheduling(m.Scheduling)
	options.TokenLife, options.Proxies, options.Logger = m.TokenLife, m.Proxies, m.Logger
	for _, f := range m.Faults {
		options.Faults.Plan(f.Method, f.Faults...)
	}
	if m.TokenID != "" {
		options.Tokens = map[string]string{m.TokenID: m.TokenSecret}
	}
	s.server, err = modaltest.Start(options)
	return err
}

// URL is what MODAL_SERVER_URL is set to.
func (s *ModalServer) URL() string { return s.server.URL() }

// Close ends every sandbox and the endpoint.
func (s *ModalServer) Close() error {
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir), os.Remove(s.lock.Path()), s.lock.Close())...)
}

// ModalLogin is a token and where to keep it; see modal.Login.
type ModalLogin = modal.Login

// LoginModal checks a token with Modal and writes it to Modal's configuration file. It returns the profile's name.
func LoginModal(ctx context.Context, login ModalLogin) (string, error) { return login.Do(ctx) }

// ModalConfigFile is the file that Modal's tools read.
func ModalConfigFile(lookup func(string) (string, bool)) (string, error) {
	return modal.ConfigFile(lookup)
}
