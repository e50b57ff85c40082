package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/mcp/keys"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
	sbtransport "github.com/seed-0724f904/sb/mcp/transport"
)

// site is a server over HTTP on its own port.
type site struct {
	*bench
	web    *sbtransport.Web
	server *httptest.Server
	keys   *keys.Store
	http   *http.Client
}

func newSite(t testing.TB, opts setup.Options) *site {
	t.Helper()
	s := &site{}
	opts.Transport = setup.StreamableHTTP
	if opts.HTTP.KeysFile == "" {
		opts.HTTP.KeysFile = filepath.Join(t.TempDir(), "keys.json")
	}
	s.keys = keys.Open(opts.HTTP.KeysFile)
	opts.HTTP.NoAuth = opts.HTTP.LocalKeyFile == "" // only the tests of authentication send keys
	s.bench = newBench(t, opts)
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.web.ServeHTTP(w, r)
	}))
	web, err := s.NewWeb(s.server.Listener.Addr())
	if err != nil {
		t.Fatal(err)
	}
	s.web = web
	s.server.Start()
	s.http = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		s.web.Shutdown()
		s.http.CloseIdleConnections()
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

func (s *site) key(t testing.TB, owner string, scope ...keys.Scope) string {
	t.Helper()
	_, secret, err := s.keys.Create(keys.Key{Owner: owner, Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// visit connects a client over streamable HTTP, with a key unless it is empty.
func (s *site) visit(t testing.TB, key string, options ...client.ClientOption) *assistant {
	t.Helper()
	headers := map[string]string{}
	if key != "" {
		headers["Authorization"] = "Bearer " + key
	}
	over, err := transport.NewStreamableHTTP(s.web.URL()+
		"/mcp", transport.WithHTTPBasicClient(s.http), transport.WithHTTPHeaders(headers))
	if err != nil {
		t.Fatal(err)
	}
	a := meet(t, client.NewClient(over, options...))
	t.Cleanup(func() { _ = a.client.Close() })
	return a
}

// visitSSE connects a client over SSE. The key is in the URL, as for clients that cannot send headers.
func (s *site) visitSSE(t testing.TB, key string, options ...client.ClientOption) *assistant {
	t.Helper()
	url := s.web.URL() + "/sse"
	if key != "" {
		url += "?api_key=" + key
	}
	over, err := transport.NewSSE(url, transport.WithHTTPClient(s.http))
	if err != nil {
		t.Fatal(err)
	}
	a := meet(t, client.NewClient(over, options...))
	t.Cleanup(func() { _ = a.client.Close() })
	return a
}

// ask makes one plain request.
func (s *site) ask(t testing.TB, method, path, body string, change func(*http.Request)) (got answer, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !strings.HasPrefix(path, "http") {
		path = s.web.URL() + path
	}
	request, err := http.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if change != nil {
		change(request)
	}
	response, err := s.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Status, response.Header}, string(data)
}

// answer is a response whose body was read.
type answer struct {
	StatusCode int
	Status     string
	Header     http.Header
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func bearer(key string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }
}

// Each malformed body gets an answer, and the server continues.
func TestMalformedRequests(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	random := rand.New(rand.NewPCG(3, 4))
	seeds := []string{
		initialize, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"sandbox":"x","command":"true"}}}`,
		`{"jsonrpc":"2.0","id":{"a":1},"method":"resources/read","params":{"uri":"sandbox://x"}}`,
		`[{"jsonrpc":"2.0","id":5,"method":"ping"}]`, "null", "",
	}
	for range 1000 {
		body := []byte(seeds[random.IntN(len(seeds))])
		for range random.IntN(5) {
			if at := random.IntN(len(body) + 1); random.IntN(2) == 0 {
				body = slices.Insert(body, at, byte(random.IntN(256)))
			} else {
				body = slices.Delete(body, at, min(len(body), at+random.IntN(30)))
			}
		}
		path := []string{"/mcp", "/message?sessionId=none"}[random.IntN(2)]
		response, text := s.ask(t, "POST", path, string(body), func(r *http.Request) {
			if random.IntN(3) == 0 {
				r.Header.Set("Mcp-Session-Id", "none")
			}
		})
		if response.StatusCode >= 500 || strings.Contains(text, "panic") {
			t.Errorf("%q is answered with %s %s", body, response.Status, text)
		}
	}
	s.visit(t, "").Launch(nil)
}

// mcp-go cannot ask clients of the protocol before 2026-07-28 over SSE. An operation that needs the user's confirmation
// is refused.
func TestSSEWithoutElicitationIsRefused(t *testing.T) {
	s := newSite(t, setup.Options{})
	user := &answers{agree: true}
	a := s.visitSSE(t, "", legacy(), client.WithElicitationHandler(user))
	a.Launch(nil)
	a.fails(core.KindUnsupported, "sandbox_terminate", args{"all": true})
	a.fails(core.KindUnsupported, "sandbox_launch", args{"gpu": "T4"})
	if got := a.Call("sandbox_list", nil); len(got["sandboxes"].([]any)) != 1 || len(user.questions) != 0 {
		t.Errorf("there are %v, and asked was %q", got, user.questions)
	}
}

// The same story over every transport and protocol.
func TestTransports(t *testing.T) {
	t.Parallel()
	story := func(t *testing.T, a *assistant) {
		t.Helper()
		sb := a.Launch(nil)
		if got := a.Call("exec", args{
			"sandbox": sb, "command": "echo working; sleep 1; echo done",
		}); got["stdout"] != "working\ndone\n" {
			t.Errorf("exec: %v", got)
		}
		a.notification("progress", func(note mcp.JSONRPCNotification) bool {
			return note.Method == "notifications/progress" && note.Params.AdditionalFields["message"] == "working"
		})
		a.Call("file_write", args{"sandbox": sb, "path": "/tmp/f", "content": "text"})
		if text := a.readText(tools.FileURI(sb, "/tmp/f")); text != "text" {
			t.Errorf("resource: %q", text)
		}
		a.fails(core.KindNotFound, "exec", args{"sandbox": "absent", "command": "true"})
		a.Call("sandbox_terminate", args{"sandbox": sb})
	}
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		story(t, newBench(t, setup.Options{}).connect(t))
	})
	t.Run("stdio 2025-11-25", func(t *testing.T) {
		t.Parallel()
		story(t, newBench(t, setup.Options{}).connect(t, legacy()))
	})
	t.Run("streamable", func(t *testing.T) {
		t.Parallel()
		story(t, newSite(t, setup.Options{}).visit(t, ""))
	})
	t.Run("streamable 2025-11-25", func(t *testing.T) {
		t.Parallel()
		story(t, newSite(t, setup.Options{}).visit(t, "", legacy()))
	})
	t.Run("sse", func(t *testing.T) {
		t.Parallel()
		story(t, newSite(t, setup.Options{}).visitSSE(t, ""))
	})
	t.Run("with keys", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, setup.Options{})
		key := s.key(t, "alice")
		story(t, s.visit(t, key))
		story(t, s.visitSSE(t, key))
	})
}

func TestKeysAreNeeded(t *testing.T) {
	s := newSite(t, setup.Options{})
	if response, _ := s.ask(t, "POST", "/mcp", initialize, nil); response.StatusCode != 200 {
		t.Errorf("before there is a key, on loopback: %s", response.Status)
	}
	key := s.key(t, "alice")
	for name, change := range map[string]func(*http.Request){
		"none": nil, "wrong": bearer("sb_x"), "empty": bearer(""), "basic": func(r *http.Request) {
			r.SetBasicAuth("alice", key)
		},
	} {
		response, text := s.ask(t, "POST", "/mcp", initialize, change)
		if response.StatusCode != 401 || response.Header.Get("WWW-Authenticate") == "" || strings.Contains(text, key) {
			t.Errorf("%s: %s %s", name, response.Status, text)
		}
	}
	if response, _ := s.ask(t, "POST", "/mcp?api_key="+key, initialize, nil); response.StatusCode != 401 {
		t.Errorf("a key in the URL of /mcp: %s", response.Status)
	}
	if response, _ := s.ask(t, "POST", "/mcp", initialize, bearer(key)); response.StatusCode != 200 {
		t.Errorf("with the key: %s", response.Status)
	}
	all, err := s.keys.List()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.keys.Revoke(all[0].ID); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*http.Request){nil, bearer(key)} {
		if response, _ := s.ask(t, "POST", "/mcp", initialize, change); response.StatusCode != 401 {
			t.Errorf("after the only key was revoked: %s", response.Status)
		}
	}
	if err := os.Remove(s.opts.HTTP.KeysFile); err != nil {
		t.Fatal(err)
	}
	if response, _ := s.ask(t, "POST", "/mcp", initialize, nil); response.StatusCode != 401 {
		t.Errorf("after the file of keys was lost: %s", response.Status)
	}
	for _, open := range []string{"/healthz", "/readyz"} {
		if response, _ := s.ask(t, "GET", open, "", nil); response.StatusCode != 200 {
			t.Errorf("%s: %s", open, response.Status)
		}
	}
}

func TestScopes(t *testing.T) {
	s := newSite(t, setup.Options{})
	owner, reader, scraper := s.key(t, "alice"), s.key(t, "alice", keys.ScopeRead), s.key(
		t, "prometheus", keys.ScopeMetrics,
	)
	sb := s.visit(t, owner).Launch(nil)
	a := s.visit(t, reader)
	if got := a.Call("sandbox_list", nil); len(got["sandboxes"].([]any)) != 1 {
		t.Errorf("a reader of the same owner sees %v", got)
	}
	if _, err := a.try(t.Context(), "exec", args{"sandbox": sb, "command": "true"}); err == nil {
		t.Error("a reader runs a command")
	}
	if response, _ := s.ask(t, "POST", "/mcp", initialize, bearer(scraper)); response.StatusCode != 403 {
		t.Errorf("a scraper talks: %s", response.Status)
	}
	if response, _ := s.ask(t, "GET", "/metrics", "", bearer(owner)); response.StatusCode != 403 {
		t.Errorf("an owner reads everybody's metrics: %s", response.Status)
	}
	response, text := s.ask(t, "GET", "/metrics", "", bearer(scraper))
	if response.StatusCode != 200 || !strings.Contains(
		text, `sb_mcp_tool_calls_total{result="ok",tool="sandbox_launch"} 1`,
	) || !strings.Contains(text, "sb_mcp_sessions") {
		t.Errorf("the metrics: %s %s", response.Status, text)
	}
}

// A key of one owner neither sees nor changes another owner's sandboxes, under any name and over any path.
func TestCrossKeyAccessIsRefused(t *testing.T) {
	s := newSite(t, setup.Options{Toolsets: []string{setup.All}, HTTP: setup.HTTP{Rate: -1}})
	aliceKey, malloryKey := s.key(t, "alice"), s.key(t, "mallory")
	alice, mallory := s.visit(t, aliceKey, legacy()), s.visit(t, malloryKey)
	info := alice.Call("sandbox_launch", args{"name": "private"})
	sb, name := info["id"].(string), info["name"].(string)
	alice.Call("file_write", args{"sandbox": "private", "path": "/tmp/f", "content": "alice's"})
	exec := alice.Call("exec", args{"sandbox": sb, "command": "sleep 600", "background": true})["exec_id"]
	link := alice.Call("file_link", args{"sandbox": sb, "path": "/tmp/f"})["url"].(string)

	if got := mallory.Call("sandbox_list", args{"all": true}); len(got["sandboxes"].([]any)) != 0 {
		t.Errorf("mallory sees %v", got)
	}
	client := s.session(t, malloryKey)
	for _, ref := range []string{sb, name, "private", "fake/" + sb, "fake/" + name, sb[:6], "fake/" + sb[:6]} {
		for tool, arguments := range map[string]args{
			"exec": {"command": "cat /tmp/f"}, "exec_wait": {"exec_id": exec}, "exec_kill": {"exec_id": exec},
			"file_read": {"path": "/tmp/f"}, "file_edit": {"path": "/tmp/f", "edits": []args{{"old": "alice", "new": "x"}}},
			"file_write": {"path": "/tmp/f", "content": "x"}, "file_list": {"path": "/"}, "file_remove": {"path": "/tmp/f"},
			"sandbox_list":      {},
			"sandbox_terminate": {}, "run_code": {"language": "bash", "code": "x"},
			"packages_install": {"packages": []string{"x"}}, "file_link": {"path": "/tmp/f"},
			"ports": {}, "sandbox_stats": {}, "exec_list": {}, "sandbox_pause": {}, "sandbox_resume": {}, "sandbox_stop": {},
			"sandbox_start":   {},
			"sandbox_timeout": {"timeout_seconds": 1}, "snapshot": {}, "dockerfile": {}, "sandbox_fork": {}, "checkpoint": {},
			"denied_connections": {},
			"network_set":        {"network": "none"}, "connect_token": {}, "sandbox_move": {"to": "fake"},
			"packages_status": {"package": "x"}, "file_mkdir": {"path": "/x"}, "file_find": {}, "file_search": {"pattern": "a"},
			"diff": {}, "apply": {},
			"push": {"local_path": "/x", "path": "/x"}, "pull": {"local_path": "/x", "path": "/x"},
		} {
			arguments["sandbox"] = ref
			text := mallory.fails(core.KindNotFound, tool, arguments)
			if rest := strings.ReplaceAll(text, ref, ""); strings.Contains(rest, "private") || strings.Contains(rest, sb) {
				t.Errorf("%s of %s has it: %s", tool, ref, text)
			}
		}
		for _, path := range []string{"", "/files/tmp/f", "/exec", "/exec/1/stdout", "/logs"} {
			response, text := s.ask(t, "POST", "/mcp", fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"sandbox://%s%s"}}`,
				strings.ReplaceAll(ref, "/", "%2F"), path,
			), func(r *http.Request) {
				bearer(malloryKey)(r)
				r.Header.Set("Mcp-Session-Id", client)
			})
			if response.StatusCode == 200 && !strings.Contains(text, `"error"`) || strings.Contains(text, "alice's") {
				t.Errorf("resource %s%s: %s", ref, path, text)
			}
		}
	}
	alice.Call("checkpoint", args{"sandbox": sb, "name": "point"})
	if got := mallory.Call("checkpoint_list", nil); len(got["checkpoints"].([]any)) != 0 {
		t.Errorf("mallory sees checkpoints: %v", got)
	}
	mallory.fails(core.KindNotFound, "sandbox_launch", args{"checkpoint": "point"})
	mallory.fails(core.KindNotFound, "sandbox_launch", args{"checkpoint": "fake/point"})
	mallory.fails(core.KindNotFound, "checkpoint_remove", args{"name": "point"})
	mallory.fails(core.KindUnauthorized, "sandbox_launch", args{"secret_names": []string{"cloud"}})
	for _, tool := range []string{"secret_list", "image_list"} {
		mallory.fails(core.KindUnauthorized, tool, nil)
	}
	mallory.fails(core.KindUnauthorized, "image_pull", args{"image": "host"})
	if got := mallory.Call("volume_list", nil); len(got["items"].([]any)) != 0 {
		t.Errorf("mallory sees volumes: %v", got)
	}
	mallory.Call("sandbox_terminate", args{"all": true})
	if got := alice.Call("file_read", args{"sandbox": sb, "path": "/tmp/f"}); got["content"] != "alice's" {
		t.Errorf("alice's file is %v", got)
	}

	// No other key can use her session.
	stolen := s.session(t, aliceKey)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		response, text := s.ask(t, method, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, func(r *http.Request) {
			bearer(malloryKey)(r)
			r.Header.Set("Mcp-Session-Id", stolen)
		})
		if response.StatusCode != 404 {
			t.Errorf("%s with a stolen session: %s %s", method, response.Status, text)
		}
	}
	// A link works for any holder, until its key is revoked.
	if response, text := s.ask(t, "GET", link, "", nil); response.StatusCode != 200 || text != "alice's" {
		t.Errorf("the link: %s %s", response.Status, text)
	}
	all, err := s.keys.List()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.keys.Revoke(all[0].ID); err != nil {
		t.Fatal(err)
	}
	if response, _ := s.ask(t, "GET", link, "", nil); response.StatusCode != 404 {
		t.Errorf("the link of a revoked key: %s", response.Status)
	}
}

// session starts a session of the protocol and returns its id.
func (s *site) session(t testing.TB, key string) string {
	t.Helper()
	response, text := s.ask(t, "POST", "/mcp", initialize, bearer(key))
	id := response.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("no session: %s %s", response.Status, text)
	}
	return id
}

func TestStolenSSESessionIsRefused(t *testing.T) {
	s := newSite(t, setup.Options{})
	aliceKey, malloryKey := s.key(t, "alice"), s.key(t, "mallory")
	s.visitSSE(t, aliceKey)
	var id string
	for _, registered := range s.sessions.StandingIDs() {
		id = registered
	}
	message := `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`
	if response, _ := s.ask(t, "POST", "/message?sessionId="+id, message, bearer(malloryKey)); response.StatusCode != 404 {
		t.Errorf("mallory: %s", response.Status)
	}
	if response, _ := s.ask(t, "POST", "/message?sessionId="+id, message, bearer(aliceKey)); response.StatusCode != 202 {
		t.Errorf("alice: %s", response.Status)
	}
}

func TestQuotasOfAKey(t *testing.T) {
	s := newSite(t, setup.Options{})
	_, secret, err := s.keys.Create(keys.Key{Owner: "guest", MaxSandboxes: 1})
	if err != nil {
		t.Fatal(err)
	}
	guest, other := s.visit(t, secret), s.visit(t, s.key(t, "other"))
	guest.Launch(nil)
	guest.fails(core.KindExhausted, "sandbox_launch", nil)
	other.Launch(nil)
	other.Launch(nil)
}

func TestRateLimit(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: 5}})
	refused := 0
	for range 40 {
		if response, _ := s.ask(t, "POST", "/mcp", initialize, nil); response.StatusCode == 429 {
			refused++
			if response.Header.Get("Retry-After") == "" {
				t.Error("it does not say when to come again")
			}
		}
	}
	if refused == 0 || refused == 40 {
		t.Errorf("%d of 40 requests were refused", refused)
	}
}

func TestDNSRebindingIsRefused(t *testing.T) {
	s := newSite(
		t,
		setup.Options{HTTP: setup.HTTP{AllowOrigins: []string{"https://app.example"}, AllowHosts: []string{"proxy.example"}}},
	)
	for _, test := range []struct {
		host, origin string
		status       int
	}{
		{"", "", 200},
		{"localhost:8000", "", 200},
		{"proxy.example", "", 200},
		{"", "https://app.example", 200},
		{"localhost:8000", "http://localhost:8000", 200},
		{"", "http://localhost:6274", 403},
		{"", "http://127.0.0.1:49152", 403},
		{"evil.example", "", 403},
		{"evil.example:8000", "http://evil.example:8000", 403},
		{"", "http://evil.example", 403},
		{"", "null", 403},
		{"proxy.example", "http://localhost:6274", 403},
		{"127.0.0.1.evil.example", "", 403},
	} {
		response, text := s.ask(t, "POST", "/mcp", initialize, func(r *http.Request) {
			if test.host != "" {
				r.Host = test.host
			}
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
		})
		if response.StatusCode != test.status {
			t.Errorf("host %q, origin %q: %s %s", test.host, test.origin, response.Status, text)
		}
	}
}

// For the user's browser, a page that a sandbox serves on a local port belongs to this machine. Unless its origin is
// allowed, the page can neither read anything nor send a message.
func TestPagesOfOtherOrigins(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{AllowOrigins: []string{"https://app.example"}}})
	from := func(origin string, head ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Origin", origin)
			for i := 0; i < len(head); i += 2 {
				r.Header.Set(head[i], head[i+1])
			}
		}
	}
	const page = "http://127.0.0.1:49152"
	for _, path := range []string{"/sse", "/mcp", "/metrics", "/healthz"} {
		if response, _ := s.ask(t, "GET", path, "", from(page)); response.StatusCode != 403 ||
			response.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s, %v", path, response.Status, response.Header)
		}
	}
	if response, _ := s.ask(
		t, "OPTIONS", "/mcp", "", from(page, "Access-Control-Request-Method", "POST"),
	); response.StatusCode != 403 {
		t.Errorf("a page that may not asks whether it may: %s", response.Status)
	}
	for _, path := range []string{"/mcp", "/message?sessionId=x"} { // a form or a script can send this without permission
		if response, text := s.ask(t, "POST", path, initialize, func(r *http.Request) {
			r.Header.Set("Content-Type", "text/plain")
		}); response.StatusCode != 400 {
			t.Errorf("%s takes text: %s %s", path, response.Status, text)
		}
	}
	response, _ := s.ask(
		t, "OPTIONS", "/mcp", "",
		from(
			"https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"content-type,mcp-session-id",
		),
	)
	if response.StatusCode != 204 || response.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		response.Header.Get("Access-Control-Allow-Headers") != "content-type,mcp-session-id" {
		t.Errorf("a page that may asks whether it may: %s, %v", response.Status, response.Header)
	}
	response, _ = s.ask(t, "POST", "/mcp", initialize, from("https://app.example"))
	if response.StatusCode != 200 || response.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(response.Header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
		t.Errorf("a page that may cannot read the answer: %s, %v", response.Status, response.Header)
	}
}

func TestLinks(t *testing.T) {
	s := newSite(t, setup.Options{Toolsets: []string{setup.All}})
	a := s.visit(t, "")
	sb := a.Launch(nil)
	for name, content := range map[string]string{
		"page.html": "<script>alert(1)</script>", "pic.svg": "<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>",
		"data.csv": "a,b\n1,2\n",
	} {
		a.Call("file_write", args{"sandbox": sb, "path": "/tmp/" + name, "content": content})
	}
	link := func(name, direction string, seconds int) string {
		t.Helper()
		return a.Call("file_link", args{"sandbox": sb, "path": "/tmp/" +
			name, "direction": direction, "expires_seconds": seconds})["url"].(string)
	}
	csv := link("data.csv", "download", 60)
	response, text := s.ask(t, "GET", csv, "", nil)
	if text != "a,b\n1,2\n" || response.Header.Get("Content-Type") != "text/csv; charset=utf-8" ||
		!strings.HasPrefix(response.Header.Get("Content-Disposition"), "inline") {
		t.Errorf("csv: %q %v", text, response.Header)
	}
	response, text = s.ask(t, "GET", csv, "", func(r *http.Request) { r.Header.Set("Range", "bytes=4-6") })
	if response.StatusCode != 206 || text != "1,2" || response.Header.Get("Content-Range") != "bytes 4-6/8" {
		t.Errorf("a range: %s %q", response.Status, text)
	}
	if response, _ = s.ask(t, "GET", csv, "", func(r *http.Request) {
		r.Header.Set("Range", "bytes=100-")
	}); response.StatusCode != 416 {
		t.Errorf("a range beyond the end: %s", response.Status)
	}
	for _, name := range []string{"page.html", "pic.svg"} {
		response, _ := s.ask(t, "GET", link(name, "download", 60), "", nil)
		header := response.Header
		if !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") ||
			header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s could run: %v", name, header)
		}
	}
	up := link("new/dir/up.bin", "upload", 60)
	if response, text := s.ask(t, "PUT", up, "uploaded\x00bytes", nil); response.StatusCode != 204 {
		t.Errorf("upload: %s %s", response.Status, text)
	}
	if _, text := s.ask(t, "GET", link("new/dir/up.bin", "download", 60), "", nil); text != "uploaded\x00bytes" {
		t.Errorf("the answer: %q", text)
	}
	for _, wrong := range []struct{ method, url string }{{"PUT", csv}, {"GET", up}, {"DELETE", csv}} {
		if response, _ := s.ask(t, wrong.method, wrong.url, "", nil); response.StatusCode != 405 {
			t.Errorf("%s: %s", wrong.method, response.Status)
		}
	}
}

func TestPublicAddressNeedsAuthentication(t *testing.T) {
	b := newBench(
		t,
		setup.Options{
			Transport: setup.StreamableHTTP,
			HTTP:      setup.HTTP{Host: "0.0.0.0", KeysFile: filepath.Join(t.TempDir(), "keys.json")},
		},
	)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := b.ServeWeb(ctx, io.Discard)
	if !errors.Is(err, core.KindUnauthorized) || !strings.Contains(core.HintOf(err), "sb key create") {
		t.Errorf("got %v", err)
	}
}

func TestLargeAndSlowRequestsEnd(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{MaxBody: 1000}})
	if response, _ := s.ask(t, "POST", "/mcp", strings.Repeat("x", 2000), nil); response.StatusCode != 413 {
		t.Errorf("a large body: %s", response.Status)
	}
}

// A client that sends single bytes slowly is cut off before its headers are complete.
func TestSlowlorisIsCutOff(t *testing.T) {
	b := newBench(
		t,
		setup.Options{
			Transport: setup.StreamableHTTP,
			HTTP:      setup.HTTP{Host: "127.0.0.1", NoAuth: true, HeaderTimeout: 300 * time.Millisecond},
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
	addr := strings.TrimSuffix(strings.TrimPrefix(listening, "listening on http://"), "/mcp")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection stays: %v", err)
	}
	cancel()
	if err := providertest.Receive(t, served); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// The notifications of a call arrive before its result, however short the call, over every transport and protocol.
func TestNotificationsComeFirst(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	addFixtures(s.Server)
	for name, a := range map[string]*assistant{
		"now": s.visit(t, ""), "2025-11-25": s.visit(t, "", legacy()), "stdio": s.connect(t),
	} {
		for i := range 100 {
			a.result("test_tool_with_progress", nil)
			a.mu.Lock()
			ends := 0
			for _, note := range a.notes {
				if note.Params.AdditionalFields["message"] == "end" {
					ends++
				}
			}
			a.mu.Unlock()
			if ends != i+1 {
				t.Fatalf("%s: after %d calls %d have reported their end", name, i+1, ends)
			}
		}
	}
}
