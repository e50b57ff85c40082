package providers

import (
	"context"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// ModalServer is a Modal endpoint whose sandboxes run on this machine.
type ModalServer struct {
	server  *modaltest.Server
	backend core.Provider
}

// ModalServerOptions configure a ModalServer.
type ModalServerOptions struct {
	// Address is where to listen, on loopback; "" is a free port.
	Address string
	// TokenID and TokenSecret are what clients must show; empty accepts any.
	TokenID, TokenSecret string
	// Secrets are there from the beginning: environment variables by the secret's name.
	Secrets map[string]map[string]string
	// Latency delays each call.
	Latency time.Duration
}

// ServeModal starts a Modal endpoint.
func ServeModal(ctx context.Context, o Options, m ModalServerOptions) (*ModalServer, error) {
	backend, err := local.Factory(local.Options{
		StateDir: o.StateDir, RuntimeDir: o.RuntimeDir, CacheDir: o.CacheDir, Runtime: o.Runtime, FreezeAfter: o.FreezeAfter, LogLimit: o.LogLimit,
	}).Open()
	if err != nil {
		return nil, err
	}
	if err := backend.Check(ctx); err != nil {
		return nil, err
	}
	guest := ""
	if provider, ok := backend.(interface {
		Guest(ctx context.Context) (string, error)
	}); ok {
		if guest, err = provider.Guest(ctx); err != nil {
			return nil, err
		}
	}
	options := modaltest.Options{Backend: backend, Guest: guest, Address: m.Address, Secrets: m.Secrets, Faults: &modaltest.Faults{}}
	options.Faults.SetLatency(m.Latency)
	if m.TokenID != "" {
		options.Tokens = map[string]string{m.TokenID: m.TokenSecret}
	}
	server, err := modaltest.Start(options)
	if err != nil {
		return nil, err
	}
	return &ModalServer{server, backend}, nil
}

// URL is what MODAL_SERVER_URL is set to.
func (s *ModalServer) URL() string { return s.server.URL() }

// Close ends every sandbox and the endpoint.
func (s *ModalServer) Close() error {
	err := s.server.Close()
	if closeErr := s.backend.Close(); err == nil {
		err = closeErr
	}
	return err
}

// ModalLogin is a token and where to keep it; see modal.Login.
type ModalLogin = modal.Login

// LoginModal checks a token with Modal and writes it to Modal's configuration file. It returns the profile's name.
func LoginModal(ctx context.Context, login ModalLogin) (string, error) { return login.Do(ctx) }

// ModalConfigFile is the file that Modal's tools read.
func ModalConfigFile(lookup func(string) (string, bool)) (string, error) {
	return modal.ConfigFile(lookup)
}
