package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/keys"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// Authenticator identifies the caller of each request.
type Authenticator struct {
	keys     *keys.Store // nil without a file
	local    keys.Local  // the zero value where the server can be reached from other machines
	noAuth   bool
	issuer   string
	audience string
	base     string
	// Patience bounds each request to the issuer.
	Patience time.Duration
	// closed is true once an API key has existed: a lost file must not open the server.
	closed atomic.Bool

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // created with the first token: the issuer may start after this server
}

// New returns the Authenticator of a server that is reached at base and listens at addr.
func New(options setup.HTTP, base string, addr net.Addr) (a *Authenticator, err error) {
	a = &Authenticator{
		issuer: options.Issuer, audience: options.Audience, base: base, noAuth: options.NoAuth, Patience: issuerTimeout,
	}
	if a.issuer != "" && a.audience == "" {
		a.audience = base + "/mcp"
	}
	if options.KeysFile != "" {
		a.keys = keys.Open(options.KeysFile)
		if _, err := a.keys.List(); err != nil {
			return nil, err
		}
	}
	if options.LocalKeyFile != "" && !a.noAuth && loopback(addr) {
		if a.local, err = keys.OpenLocal(options.LocalKeyFile); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// loopback reports whether only programs of this machine can connect to addr.
func loopback(addr net.Addr) bool {
	host, _, err := net.SplitHostPort(addr.String())
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// Required reports whether requests need a key or a token.
func (a *Authenticator) Required() bool { return !a.noAuth || a.configured() }

// configured reports whether there is an API key or an issuer of tokens, or whether there was a key.
func (a *Authenticator) configured() bool {
	if a.issuer != "" || a.closed.Load() {
		return true
	}
	if a.keys == nil {
		return false
	}
	known, err := a.keys.List()
	if len(known) > 0 { // a revoked key must not open the server to all
		a.closed.Store(true)
	}
	return err != nil || len(known) > 0
}

// Enough returns an error if addr is reachable from other machines without keys or tokens, or if noAuth contradicts
// them.
func (a *Authenticator) Enough(addr net.Addr) error {
	switch {
	case a.noAuth && a.configured():
		return core.Errorf(
			core.KindUsage, "mcp", "", "--no-auth is for a server without API keys and without an issuer of tokens",
		).
			WithHint("leave --no-auth out; \"sb key ls --all\" lists the keys")
	case loopback(addr) || a.configured():
		return nil
	}
	return core.Errorf(
		core.KindUnauthorized, "mcp", "",
		"%s can be reached from other machines, and there is neither an API key nor an issuer of tokens", addr,
	).
		WithHint("make a key with \"sb key create OWNER\", configure --oauth-issuer, or listen on 127.0.0.1")
}

// Introduce returns a note for the user about access to the server at url, or "" if none is needed.
func (a *Authenticator) Introduce(url string) string {
	switch {
	case a.noAuth:
		return "warning: every user of this machine can use it (--no-auth)\n"
	case a.local != keys.Local{} && !a.configured():
		return "clients need your local key: sb mcp install --client CLIENT --url " + url + "\n"
	}
	return ""
}

// Identify returns the identity of a request's caller.
func (a *Authenticator) Identify(r *http.Request) (Identity, error) {
	if !a.Required() {
		return Identity{}, nil
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case strings.EqualFold(scheme, "Bearer") && secret != "":
		secret = strings.TrimSpace(secret)
	case scheme == "" && (r.URL.Path == "/sse" || r.URL.Path == "/message"):
		// Clients of SSE cannot send headers. Only these routes take a key in the URL, since URLs end up in logs.
		secret = r.URL.Query().Get("api_key")
	default:
		secret = ""
	}
	if secret == "" {
		return Identity{}, core.Errorf(core.KindUnauthorized, "mcp", "", "no API key and no token was sent")
	}
	if a.local.Matches(secret) {
		return Identity{Metrics: true}, nil
	}
	if a.keys != nil {
		if key, err := a.keys.Verify(secret); err == nil {
			return identityOf(key), nil
		} else if !errors.Is(err, core.KindUnauthorized) {
			return Identity{}, err
		}
	}
	if a.issuer != "" && strings.Count(secret, ".") == 2 {
		return a.token(r.Context(), secret)
	}
	return Identity{}, core.Errorf(core.KindUnauthorized, "mcp", "", "the API key is not valid")
}

func identityOf(key keys.Key) Identity {
	return Identity{
		Owner: key.Owner, Isolated: true, Key: key.ID, MaxSandboxes: key.MaxSandboxes, Rate: key.Rate,
		ReadOnly: !key.Has(keys.ScopeAll), Metrics: key.Has(keys.ScopeMetrics), NoTools: !key.Has(keys.ScopeAll) &&
			!key.Has(keys.ScopeRead),
	}
}

// scopeRead is the scope of read-only tokens. A token without any scope of sb may call every tool.
const scopeRead = "sandbox:read"

// token verifies a token's signature, issuer, audience and time.
func (a *Authenticator) token(ctx context.Context, raw string) (Identity, error) {
	verifier, err := a.tokens(ctx)
	if err != nil {
		return Identity{}, core.Errorf(core.KindUnavailable, "mcp", "", "the issuer of tokens does not answer: %w", err)
	}
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Identity{}, core.Errorf(core.KindUnauthorized, "mcp", "", "the token is not valid")
	}
	var claims struct {
		Scope string `json:"scope"`
	}
	if err := token.Claims(&claims); err != nil || token.Subject == "" {
		return Identity{}, core.Errorf(core.KindUnauthorized, "mcp", "", "the token names no owner")
	}
	sum := sha256.Sum256([]byte(token.Issuer + "\x00" + token.Subject))
	owner := "jwt-" + hex.EncodeToString(sum[:8])
	return Identity{
		Owner: owner, Isolated: true, Key: owner, ReadOnly: slices.Contains(strings.Fields(claims.Scope), scopeRead),
	}, nil
}

// issuerTimeout bounds each request to the issuer.
const issuerTimeout = 10 * time.Second

func (a *Authenticator) tokens(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	a.mu.Lock()
	known := a.verifier
	a.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// The verifier fetches the keys again when they change, so its context must outlive the request.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), &http.Client{Timeout: a.Patience})
	provider, err := oidc.NewProvider(ctx, a.issuer)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verifier = provider.Verifier(&oidc.Config{ClientID: a.audience})
	return a.verifier, nil
}

// Routes serves the metadata that names the issuer of tokens.
func (a *Authenticator) Routes(mux *http.ServeMux) {
	if a.issuer == "" {
		return
	}
	config := server.ProtectedResourceMetadataConfig{Resource: a.base +
		"/mcp", AuthorizationServers: []string{a.issuer}, ResourceName: "sb", ScopesSupported: []string{scopeRead}}
	handler := server.NewProtectedResourceMetadataHandler(config)
	mux.Handle("GET "+server.ProtectedResourceMetadataPath(config.Resource), handler)
	mux.Handle("GET /.well-known/oauth-protected-resource", handler)
}

// Challenge returns the WWW-Authenticate header for a request without valid credentials.
func (a *Authenticator) Challenge() string {
	if a.issuer == "" {
		return `Bearer realm="sb"`
	}
	return `Bearer realm="sb", resource_metadata="` + a.base + `/.well-known/oauth-protected-resource"`
}

// Known returns an error if the key of a link is no longer valid. Tokens are not checked again.
func (a *Authenticator) Known(key string) error {
	if a.keys == nil || strings.HasPrefix(key, "jwt-") {
		return nil
	}
	_, err := a.keys.Find(key)
	return err
}
