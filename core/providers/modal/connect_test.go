//go:build linux

package modal_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// echoServer answers a request with its body and with the header about its sender.
const echoServer = `
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Who", self.headers.get("X-Verified-User-Data", ""))
        self.send_header("X-Authorization", self.headers.get("Authorization", "none"))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 9000), H).serve_forever()
`

// A connect token carries bytes to and from an unpublished port. The sandbox receives the sender's metadata.
func TestConnectTokenCarriesBytes(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.Command = []string{"python3", "-c", echoServer}
	sb := launched(t, p, s)
	made, err := p.ConnectToken(t.Context(), sb.ID, core.ConnectOptions{Port: 9000, Metadata: `{"user":"ada"}`})
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 3<<20)
	if _, err := rand.Read(body); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	post := func(token string, body []byte) (int, http.Header, []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, made.URL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		reply, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reply.Body.Close() }()
		back, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply.StatusCode, reply.Header, back
	}
	// A rejection before a large body was read breaks the connection. So a request that may be rejected has no body.
	eventually(t, func() bool {
		code, _, _ := post(made.Token.Reveal(), nil)
		return code == http.StatusOK
	})
	code, header, back := post(made.Token.Reveal(), body)
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, back)
	}
	if sha256.Sum256(back) != sha256.Sum256(body) {
		t.Errorf("%d bytes came back, others than the %d that were sent", len(back), len(body))
	}
	if header.Get("X-Who") != `{"user":"ada"}` || header.Get("X-Authorization") != "none" {
		t.Errorf("the sandbox got %v", header)
	}
	if strings.Contains(made.Token.String(), made.Token.Reveal()) {
		t.Error("a token shows itself")
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := post(made.Token.Reveal(), nil); code == http.StatusOK {
		t.Error("it leads somewhere still")
	}
	if _, err := p.ConnectToken(t.Context(), sb.ID, core.ConnectOptions{}); err == nil {
		t.Error("an ended sandbox has a token")
	}
}

// A proxy is found by its name, and its id is cached.
func TestProxies(t *testing.T) {
	r := newRig(t, func(o *modaltest.Options) { o.Proxies = []string{"exit"} })
	s := spec()
	s.Modal = modalspec.Section{Proxy: "exit"}.JSON()
	for turn, want := range []int{1, 0} {
		p := modal.New(r.opts)
		s.Name = core.NewName()
		r.server.ResetCalls()
		sb := launched(t, p, s)
		calls := 0
		for _, call := range r.server.Calls() {
			if call.Method == "ProxyGet" {
				calls++
			}
		}
		if id := r.server.Definition(sb.ID).GetProxyId(); id == "" || calls != want {
			t.Errorf("turn %d: proxy %q, asked for it %d times", turn, id, calls)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
