package mcp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/mcp/keys"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// issuer is an OAuth issuer: its metadata, its keys, and its tokens.
type issuer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	signer jose.Signer
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{key: newKey(t)}
	var err error
	if i.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "1"}}, nil,
	); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL +
				"/token",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{
			Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}},
		})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		i.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return i
}

func (i *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": i.URL, "sub": "alice", "aud": "sandboxes", "exp": time.Now().Add(time.Hour).
		Unix(), "iat": time.Now().Unix()}
	maps.Copy(all, claims)
	token, err := jwt.Signed(i.signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokens(t *testing.T) {
	i := newIssuer(t)
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Issuer: i.URL, Audience: "sandboxes"}})
	response, _ := s.ask(t, "POST", "/mcp", initialize, nil)
	if challenge := response.Header.Get("WWW-Authenticate"); response.StatusCode != 401 ||
		!strings.Contains(challenge, "resource_metadata=") {
		t.Errorf("without a token: %s, %q", response.Status, challenge)
	}
	response, text := s.ask(t, "GET", "/.well-known/oauth-protected-resource", "", nil)
	if response.StatusCode != 200 || !strings.Contains(text, i.URL) || !strings.Contains(text, s.web.URL()+"/mcp") {
		t.Errorf("the metadata: %s %s", response.Status, text)
	}
	foreign := newIssuer(t)
	forged := foreign.token(t, map[string]any{"iss": i.URL})
	for name, token := range map[string]string{
		"of another audience": i.token(t, map[string]any{"aud": "other"}),
		"expired":             i.token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"of another issuer":   foreign.token(t, nil), "forged": forged,
		"without a subject": i.token(t, map[string]any{"sub": ""}), "no token": "a.b.c",
	} {
		if response, text := s.ask(t, "POST", "/mcp", initialize, bearer(token)); response.StatusCode != 401 {
			t.Errorf("a token %s: %s %s", name, response.Status, text)
		}
	}
	alice, bob := s.visit(t, i.token(t, nil)), s.visit(t, i.token(t, map[string]any{"sub": "bob"}))
	sb := alice.Launch(nil)
	bob.fails(core.KindNotFound, "exec", args{"sandbox": sb, "command": "true"})
	again := s.visit(t, i.token(t, map[string]any{"scope": "openid sandbox:read"}))
	if got := again.Call("sandbox_list", nil); len(got["sandboxes"].([]any)) != 1 {
		t.Errorf("alice, later, sees %v", got)
	}
	if _, err := again.try(t.Context(), "exec", args{"sandbox": sb, "command": "true"}); err == nil {
		t.Error("a token that may only read runs a command")
	}
	key := s.key(t, "carol") // keys still work beside tokens
	s.visit(t, key).Launch(nil)
}

// When the issuer never answers, requests fail in time, and one client does not delay another.
func TestHangingIssuer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Issuer: "http://" + listener.Addr().String()}})
	s.web.Auth.Patience = 500 * time.Millisecond
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if response, text := s.ask(t, "POST", "/mcp", initialize, bearer("a.b.c")); response.StatusCode != 503 {
				t.Errorf("%s %s", response.Status, text)
			}
		})
	}
	wg.Wait()
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, data := range map[string][]byte{
		certFile: cert, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newBench(
		t,
		setup.Options{
			Transport: setup.StreamableHTTP,
			HTTP:      setup.HTTP{Host: "127.0.0.1", NoAuth: true, TLSCert: certFile, TLSKey: keyFile},
		},
	)
	ctx, cancel := context.WithCancel(t.Context())
	logs, logWriter := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- b.ServeWeb(ctx, logWriter) }()
	line := make([]byte, 500)
	n, err := logs.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	listening, _, _ := strings.Cut(string(line[:n]), "\n")
	url := strings.TrimPrefix(listening, "listening on ")
	if !strings.HasPrefix(url, "https://127.0.0.1:") {
		t.Errorf("it listens on %s", url)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	response, err := client.Get(strings.TrimSuffix(url, "/mcp") + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("over TLS: %s", response.Status)
	}
	client.CloseIdleConnections()
	cancel()
	if err := providertest.Receive(t, served); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func FuzzArguments(f *testing.F) {
	tools := tools.Catalogue()
	for i, seed := range []string{
		`{"sandbox":"x","command":"true"}`, `{}`, `null`, `[]`, `{"env":{"a":1}}`, `{"a":{"b":[1,2,{"c":null}]}}`,
		`{"sandbox":"\ud800"}`,
	} {
		f.Add(uint(i), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, which uint, arguments []byte) {
		tool := tools[which%uint(len(tools))]
		into := map[string]any{}
		if err := tool.In.Decode(arguments, &into); err != nil && !errors.Is(err, core.KindUsage) {
			t.Errorf("%s of %s: %v", arguments, tool.Name, err)
		}
	})
}

func FuzzURI(f *testing.F) {
	for _, seed := range []string{
		"sandbox://", "sandbox://x/files/a%2Fb?offset=1", "sandbox://x/exec/1/stdout?grep=^a", "sandbox://%zz",
		"sandbox://x/files/../../etc", "file:///x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		l, err := parseURI(uri)
		if err != nil {
			return
		}
		if l.kind == "files" && (!strings.HasPrefix(l.path, "/") || strings.Contains(l.path, "/../")) {
			t.Errorf("%q leads to %q", uri, l.path)
		}
		if l.window.offset < 0 || l.window.limit <= 0 || l.window.limit > rangeMost || l.sandbox == "" && l.kind != "" {
			t.Errorf("%q is %+v", uri, l)
		}
	})
}

// Other users of this machine can connect to loopback, too. Without a key only the health check answers.
func TestLoopbackNeedsTheLocalKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.key")
	s := newSite(t, setup.Options{HTTP: setup.HTTP{LocalKeyFile: file}})
	local, err := keys.OpenLocal(file)
	if err != nil {
		t.Fatal(err)
	}
	with := func(key string) func(*http.Request) {
		return func(r *http.Request) {
			if key != "" {
				r.Header.Set("Authorization", "Bearer "+key)
			}
		}
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, request := range []struct{ method, path, body string }{
		{"POST", "/mcp", list}, {"GET", "/mcp", ""}, {"GET", "/sse", ""}, {"POST", "/message", list}, {"GET", "/metrics", ""},
	} {
		for _, key := range []string{"", "sb_local_" + strings.Repeat("A", 26)} {
			if got, text := s.ask(
				t, request.method, request.path, request.body, with(key),
			); got.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s with key %q: %s %s", request.method, request.path, key, got.Status, text)
			}
		}
	}
	if got, text := s.ask(t, "GET", "/metrics", "", with(local.Reveal())); got.StatusCode != http.StatusOK {
		t.Errorf("with the local key: %s %s", got.Status, text)
	}
	s.visit(t, local.Reveal()).Call("sandbox_list", args{})
	s.key(t, "alice") // an API key is for other users; the user's own programs keep the local key
	s.visit(t, local.Reveal()).Call("sandbox_list", args{})
	s.visitSSE(t, local.Reveal()).Call("sandbox_list", args{})
}
