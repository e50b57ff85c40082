package providers

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// ModalServer is a Modal endpoint whose sandboxes run on this machine.
type ModalServer struct {
	server  *modaltest.Server
	backend core.Provider
	// dir holds the server's files. lock marks them as in use.
	dir  string
	lock *flock.Flock
	// envFile is the path of the file for clients; "" means none.
	envFile string
	// left holds the locks of killed servers until sweep removes their files.
	left []*flock.Flock
}

// ModalServerOptions configure a ModalServer.
type ModalServerOptions struct {
	// Address is the loopback address to listen on; "" chooses a free port.
	Address string
	// TokenID and TokenSecret are the token that clients must send; "" generates one.
	TokenID, TokenSecret string
	// AnyToken accepts any token.
	AnyToken bool
	// EnvFile is a file of shell exports with the settings of clients. The server writes it once it serves, with mode
	// 0600, and Close removes it. If EnvFile is "" and the server made the token, the file is below the state directory.
	EnvFile string
	// Secrets are the initial secrets: environment variables by the secret's name.
	Secrets map[string]map[string]string
	// Buckets maps names of cloud buckets to the directories that stand for them.
	Buckets map[string]string
	// Logger gets the requests of clients that have no effect here; nil discards them.
	Logger *slog.Logger
	// Latency delays each call. Scheduling delays the start of each sandbox.
	Latency, Scheduling time.Duration
	// TokenLife is the lifetime of the short-lived tokens for clients; 0 means Modal's.
	TokenLife time.Duration
	// Faults are the planned failures, as ParseModalFault returns them.
	Faults []ModalFault
	// Proxies are the names of the existing Modal proxies. Connections through one leave from this machine.
	Proxies []string
	// Progress gets the steps of the start; nil ignores them.
	Progress core.ProgressFunc
}

// ModalFault makes the next calls of one RPC fail.
type ModalFault = modaltest.PlannedFault

// ParseModalFault reads METHOD=CODE[,times=N][,retry-after=DURATION]; CODE is a gRPC status: UNAVAILABLE.
func ParseModalFault(text string) (ModalFault, error) { return modaltest.ParseFault(text) }

// ServeModal starts a Modal endpoint.
func ServeModal(ctx context.Context, o Options, m ModalServerOptions) (*ModalServer, error) {
	s := &ModalServer{}
	// A separate state directory hides the server's sandboxes from sb's commands. They appear only as sandboxes at Modal.
	o.StateDir = filepath.Join(o.StateDir, serveDir)
	err := s.claim(filepath.Join(o.StateDir, "servers"))
	if err == nil {
		err = s.start(ctx, o, m)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// serveDir is the directory of Modal endpoints in sb's state directory.
const serveDir = "modal-serve"

// claim creates and locks a directory for the server's files. It also finds the locks of killed servers.
func (s *ModalServer) claim(parent string) error {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return core.Wrap("modal.serve", parent, err)
	}
	others, err := filepath.Glob(filepath.Join(parent, "*"+lockSuffix))
	if err != nil {
		return core.Wrap("modal.serve", parent, err)
	}
	for _, other := range others {
		left := flock.New(other)
		if taken, err := left.TryLock(); err == nil && taken {
			s.left = append(s.left, left)
		}
	}
	lock := flock.New(filepath.Join(parent, strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().
		UnixNano(), 36)+lockSuffix))
	if taken, err := lock.TryLock(); err != nil || !taken {
		return core.Errorf(core.KindUnavailable, "modal.serve", parent, "cannot be locked: %w", err)
	}
	s.lock, s.dir = lock, strings.TrimSuffix(lock.Path(), lockSuffix)
	return core.Wrap("modal.serve", s.dir, os.Mkdir(s.dir, 0o700))
}

// lockSuffix is the suffix of lock files; each marks a directory as in use.
const lockSuffix = ".lock"

// snapshotPrefix returns the name prefix of the snapshots and checkpoints of a lock's server.
func snapshotPrefix(lock *flock.Flock) string {
	return "serve-" + strings.TrimSuffix(filepath.Base(lock.Path()), lockSuffix) + "-"
}

// sweep removes the sandboxes, snapshots, checkpoints and files of killed servers. It removes a lock file last, so that
// the next server can finish an interrupted sweep.
func (s *ModalServer) sweep(ctx context.Context) error {
	all, err := s.backend.List(ctx)
	if err != nil {
		return err
	}
	for _, sb := range all {
		if !sb.Lease.Owner.Gone() {
			continue
		}
		if err := s.backend.Terminate(ctx, sb.ID); err != nil && !errors.Is(err, core.KindNotFound) {
			return err
		}
	}
	for len(s.left) > 0 {
		left := s.left[0]
		if err := errors.Join(
			s.removeSnapshots(ctx, snapshotPrefix(left)), s.removeCheckpoints(ctx, snapshotPrefix(left)),
		); err != nil {
			return err
		}
		dir := strings.TrimSuffix(left.Path(), lockSuffix)
		if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+".env")); err != nil {
			return core.Wrap("modal.serve", left.Path(), err)
		}
		s.left = s.left[1:]
		if err := errors.Join(os.Remove(left.Path()), left.Close()); err != nil {
			return core.Wrap("modal.serve", left.Path(), err)
		}
	}
	return nil
}

func (s *ModalServer) removeSnapshots(ctx context.Context, prefix string) error {
	store, ok := s.backend.(core.SnapshotStore)
	if !ok {
		return nil
	}
	all, err := store.Snapshots(ctx)
	if err != nil {
		return err
	}
	for _, snapshot := range all {
		if strings.HasPrefix(snapshot.ID, prefix) {
			if err := store.RemoveSnapshot(ctx, snapshot.ID); err != nil && !errors.Is(err, core.KindNotFound) {
				return err
			}
		}
	}
	return nil
}

func (s *ModalServer) removeCheckpoints(ctx context.Context, prefix string) error {
	checkpointer, ok := s.backend.(core.Checkpointer)
	if !ok {
		return nil
	}
	all, err := checkpointer.Checkpoints(ctx)
	if err != nil {
		return err
	}
	for _, checkpoint := range all {
		if strings.HasPrefix(checkpoint.Name, prefix) {
			if err := checkpointer.RemoveCheckpoint(ctx, checkpoint.Name); err != nil && !errors.Is(err, core.KindNotFound) {
				return err
			}
		}
	}
	return nil
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
		StateDir: o.StateDir, CacheDir: o.StateDir, Runtime: o.Runtime, FreezeAfter: o.FreezeAfter, LogLimit: o.LogLimit,
		HostDirs: shown, HostOnly: true,
	}).Open()
	if err != nil {
		return err
	}
	if err := s.backend.Check(ctx); err != nil {
		return err
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	guest := ""
	if provider, ok := s.backend.(interface{ Guest() (string, error) }); ok {
		if guest, err = provider.Guest(); err != nil {
			return err
		}
	}
	options := modaltest.Options{
		Backend: s.backend, Guest: guest, Dir: s.dir, SnapshotPrefix: snapshotPrefix(s.lock), Buckets: m.Buckets,
		Address: m.Address, Secrets: m.Secrets, Faults: &modaltest.Faults{},
	}
	options.Faults.SetLatency(m.Latency)
	options.Faults.SetScheduling(m.Scheduling)
	options.TokenLife, options.Proxies, options.Logger = m.TokenLife, m.Proxies, m.Logger
	for _, f := range m.Faults {
		options.Faults.Plan(f.Method, f.Faults...)
	}
	made := !m.AnyToken && m.TokenID == ""
	if made {
		m.TokenID, m.TokenSecret = "ak-"+rand.Text(), "as-"+rand.Text()
	}
	if !m.AnyToken {
		options.Tokens = map[string]string{m.TokenID: m.TokenSecret}
	}
	if s.server, err = modaltest.Start(options); err != nil {
		return err
	}
	switch {
	case m.EnvFile != "":
		s.envFile = m.EnvFile
	case made:
		s.envFile = s.dir + ".env"
	default:
		return nil
	}
	if m.AnyToken {
		m.TokenID, m.TokenSecret = "ak-any", "as-any"
	}
	return s.writeEnv(m)
}

// writeEnv writes the file for clients atomically.
func (s *ModalServer) writeEnv(m ModalServerOptions) error {
	var text strings.Builder
	for _, variable := range [][2]string{
		{"MODAL_SERVER_URL", s.URL()}, {"MODAL_TOKEN_ID", m.TokenID}, {"MODAL_TOKEN_SECRET", m.TokenSecret},
	} {
		text.WriteString("export " + variable[0] + "='" + strings.ReplaceAll(variable[1], "'", `'\''`) + "'\n")
	}
	if err := atomicfile.Write(s.envFile, []byte(text.String()), 0o600); err != nil {
		path := s.envFile
		s.envFile = ""
		return core.Wrap("modal.serve", path, err)
	}
	return nil
}

// EnvFile returns the path of the file with the settings of clients; "" means none.
func (s *ModalServer) EnvFile() string { return s.envFile }

// URL returns the value for MODAL_SERVER_URL.
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
	for _, left := range s.left {
		errs = append(errs, left.Close())
	}
	if s.envFile != "" {
		if err := os.Remove(s.envFile); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if s.lock != nil && s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir), os.Remove(s.lock.Path()), s.lock.Close())
	}
	return errors.Join(errs...)
}

// ModalLogin is a token and its destination; see client.Login.
type ModalLogin = client.Login

// LoginModal checks a token with Modal and writes it to Modal's configuration file. It returns the profile's name.
func LoginModal(ctx context.Context, login ModalLogin) (string, error) { return login.Do(ctx) }

// ModalConfigFile returns the path of the configuration file of Modal's tools.
func ModalConfigFile(lookup func(string) (string, bool)) (string, error) {
	return client.ConfigFile(lookup)
}
