package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/mcp/keys"
	"github.com/seed-0724f904/sb/mcp/rest"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// document is the OpenAPI document, as far as these tests read it.
type document struct {
	Paths map[string]map[string]struct {
		ID         string `json:"operationId"`
		Parameters []struct {
			Name, In string
			Required bool
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema *jsonschema.Schema }
		}
	}
}

func readDocument(t testing.TB) (d document) {
	t.Helper()
	encoded, err := rest.Document()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// apiClient makes requests with a key, and checks each response against the document.
type apiClient struct {
	*site
	key string
	doc document
}

func (s *site) api(t testing.TB, key string) *apiClient {
	t.Helper()
	return &apiClient{site: s, key: key, doc: readDocument(t)}
}

// response is a response that has the form of the document.
type response struct {
	answer
	text string
	// JSON is the body, if it is an object.
	JSON map[string]any
}

// send makes a request. change may be nil.
func (c *apiClient) send(t testing.TB, method, path, body string, change func(*http.Request)) response {
	t.Helper()
	got, text := c.ask(t, method, "/api/v1"+path, body, func(r *http.Request) {
		r.Header.Del("Accept")
		if body == "" {
			r.Header.Del("Content-Type")
		}
		if c.key != "" {
			bearer(c.key)(r)
		}
		if change != nil {
			change(r)
		}
	})
	r := response{answer: got, text: text}
	_ = json.Unmarshal([]byte(text), &r.JSON)
	c.check(t, method, path, r)
	return r
}

// check compares a response with the document. Errors are problems.
func (c *apiClient) check(t testing.TB, method, path string, r response) {
	t.Helper()
	where := method + " " + path
	if r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: a browser may guess the type: %v", where, r.Header)
	}
	if r.StatusCode >= 400 {
		for _, name := range []string{"type", "title", "status", "detail", "kind"} {
			if r.JSON[name] == nil || r.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: not a problem: %s, %v, %s", where, r.Status, r.Header, r.text)
				return
			}
		}
		if r.JSON["status"] != float64(r.StatusCode) {
			t.Errorf("%s: %s in %s", where, r.text, r.Status)
		}
		return
	}
	bare, _, _ := strings.Cut(path, "?")
	for template, methods := range c.doc.Paths {
		op, ok := methods[strings.ToLower(method)]
		if !ok || !matches(strings.TrimPrefix(template, "/api/v1"), bare) {
			continue
		}
		described, ok := op.Responses[fmt.Sprint(r.StatusCode)]
		if !ok {
			t.Errorf("%s: the document does not have %s", where, r.Status)
		}
		if described.Content == nil != (r.text == "") {
			t.Errorf("%s: the body is %q", where, r.text)
		}
		content := described.Content["application/json"]
		if content.Schema == nil {
			return
		}
		resolved, err := content.Schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(r.JSON); err != nil {
			t.Errorf("%s: %v: %s", where, err, r.text)
		}
		return
	}
	t.Errorf("%s is not in the document", where)
}

// matches reports whether a path has the form of a template.
func matches(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	return len(want) == len(got) && !slices.ContainsFunc(want, func(part string) bool {
		i := slices.Index(want, part)
		return !strings.HasPrefix(part, "{") && part != got[i]
	})
}

// want is send for a request that has to get a status.
func (c *apiClient) want(t testing.TB, status int, method, path, body string) response {
	t.Helper()
	r := c.send(t, method, path, body, nil)
	if r.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d: %s", method, path, r.Status, status, r.text)
	}
	return r
}

// launch makes a sandbox and returns the path of its routes.
func (c *apiClient) launch(t testing.TB, body string) string {
	t.Helper()
	r := c.want(t, 201, "POST", "/sandboxes", body)
	location := r.Header.Get("Location")
	if location != "/api/v1/sandboxes/"+r.JSON["id"].(string) {
		t.Fatalf("the location is %q: %s", location, r.text)
	}
	return strings.TrimPrefix(location, "/api/v1")
}

// lines decodes a body of lines of JSON.
func lines(t testing.TB, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

func TestSandboxesOverHTTP(t *testing.T) {
	s := newSite(t, setup.Options{})
	c := s.api(t, s.key(t, "alice"))
	sb := c.launch(t, `{"name": "dev"}`)
	list := c.want(t, 200, "GET", "/sandboxes", "").JSON["sandboxes"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["name"] != "mcp-alice-dev" {
		t.Errorf("the list: %v", list)
	}
	for _, ref := range []string{sb, "/sandboxes/dev", "/sandboxes/fake%2Fmcp-alice-dev"} {
		if got := c.want(t, 200, "GET", ref, ""); got.JSON["state"] != "running" {
			t.Errorf("%s: %s", ref, got.text)
		}
	}
	got := c.want(t, 200, "POST", sb+"/execs", `{"command": "echo out; echo err >&2; exit 3"}`)
	if got.JSON["stdout"] != "out\n" || got.JSON["stderr"] != "err\n" || got.JSON["exit_code"] != 3.0 {
		t.Errorf("the command: %s", got.text)
	}
	id := c.want(t, 200, "POST", sb+"/execs", `{"command": "read x; echo got $x", "keep_stdin_open": true, "background": true}`).
		JSON["exec_id"].(string)
	got = c.want(t, 200, "POST", sb+"/execs/"+id+"/input", `{"stdin": "a line\n", "close_stdin": true}`)
	if got = c.want(t, 200, "GET", sb+"/execs/"+id, ""); got.JSON["stdout"] != "got a line\n" {
		t.Errorf("the input: %s", got.text)
	}
	if got := c.want(t, 200, "GET", sb+"/execs", ""); len(got.JSON["execs"].([]any)) < 2 {
		t.Errorf("the commands: %s", got.text)
	}
	records := lines(t, c.want(t, 200, "GET", sb+"/logs?exec_id="+id, "").text)
	text := ""
	for _, record := range records {
		text += record["stream"].(string) + " " + record["text"].(string)
	}
	if strings.ReplaceAll(text, "stdout ", "") != "got a line\n" {
		t.Errorf("the log: %v", records)
	}
	id = c.want(t, 200, "POST", sb+"/execs", `{"command": "sleep 600", "background": true}`).JSON["exec_id"].(string)
	if got := c.want(t, 200, "POST", sb+"/execs/"+id+"/kill", `{"signal": "KILL"}`); got.JSON["exit_code"] != 137.0 {
		t.Errorf("the signal: %s", got.text)
	}
	c.want(t, 200, "POST", sb+"/pause", "")
	if got := c.want(t, 200, "POST", sb+"/resume", ""); got.JSON["state"] != "running" {
		t.Errorf("resumed: %s", got.text)
	}
	c.want(t, 204, "DELETE", sb, "")
	if got := c.want(t, 404, "GET", sb, ""); got.JSON["kind"] != "not_found" || got.JSON["hint"] == nil {
		t.Errorf("after the end: %s", got.text)
	}
}

func TestFilesOverHTTP(t *testing.T) {
	s := newSite(t, setup.Options{})
	c := s.api(t, "")
	sb := c.launch(t, `{}`)
	file := sb + "/files?path=/tmp/page.html"
	const content = "<script>alert(1)</script>"
	with := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Content-Type", "application/octet-stream")
			r.Header.Set(name, value)
		}
	}
	if got := c.send(t, "PUT", file, content, with("If-Match", "*")); got.StatusCode != 412 {
		t.Errorf("a file that is not there: %s", got.Status)
	}
	put := c.send(t, "PUT", file, content, with("If-None-Match", "*"))
	if put.StatusCode != 204 {
		t.Fatalf("%s: %s", put.Status, put.text)
	}
	got := c.want(t, 200, "GET", file, "")
	// The bytes are hostile: a browser must store them, and never show them as a page of this server.
	if got.text != content || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") ||
		!strings.Contains(got.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%s, %v", got.text, got.Header)
	}
	tag := got.Header.Get("ETag")
	if tag == "" || tag != put.Header.Get("ETag") {
		t.Errorf("the tags are %q and %q", tag, put.Header.Get("ETag"))
	}
	if got := c.send(t, "GET", file, "", with("Range", "bytes=1-6")); got.StatusCode != 206 || got.text != "script" {
		t.Errorf("a part: %s, %q", got.Status, got.text)
	}
	if got := c.send(t, "GET", file, "", with("If-None-Match", tag)); got.StatusCode != 304 {
		t.Errorf("the same file: %s", got.Status)
	}
	if got := c.send(t, "PUT", file, "other", with("If-None-Match", "*")); got.StatusCode != 412 {
		t.Errorf("a file that is there: %s", got.Status)
	}
	if got := c.send(t, "PUT", file, "a longer text than before", with("If-Match", tag)); got.StatusCode != 204 {
		t.Errorf("the file in the known state: %s", got.Status)
	}
	if got := c.send(t, "PUT", file, "lost", with("If-Match", tag)); got.StatusCode != 412 || got.JSON["hint"] == nil {
		t.Errorf("a changed file: %s: %s", got.Status, got.text)
	}
	if got := c.want(t, 200, "GET", file, ""); got.text != "a longer text than before" || got.Header.Get("ETag") == tag {
		t.Errorf("the file is %q", got.text)
	}
	c.want(t, 200, "POST", sb+"/execs", `{"command": "ln -s page.html /tmp/link; : > /tmp/empty"}`)
	if got := c.want(t, 200, "GET", sb+"/files?path=/tmp/link", ""); got.text != "a longer text than before" {
		t.Errorf("through a link: %q", got.text)
	}
	empty, text := s.ask(t, "GET", "/api/v1"+sb+"/files?path=/tmp/empty", "", nil)
	if empty.StatusCode != 200 || text != "" {
		t.Errorf("an empty file: %s, %q", empty.Status, text)
	}
	if got := c.want(t, 200, "GET", sb+"/directory?path=/tmp", ""); got.JSON["total"] != 3.0 {
		t.Errorf("the directory: %s", got.text)
	}
	c.want(t, 200, "POST", sb+"/files/edit", `{"path": "/tmp/page.html", "edits": [{"old": "longer", "new": "short"}]}`)
	c.want(t, 200, "DELETE", file, "")
	c.want(t, 404, "GET", file, "")
}

// A repeated launch with the same key returns the sandbox of the first, and another launch cannot use the key.
func TestIdempotentLaunch(t *testing.T) {
	s := newSite(t, setup.Options{})
	alice, bob := s.api(t, s.key(t, "alice")), s.api(t, s.key(t, "bob"))
	launch := func(c *apiClient, key, body string) response {
		return c.send(t, "POST", "/sandboxes", body, func(r *http.Request) { r.Header.Set("Idempotency-Key", key) })
	}
	first, second := launch(alice, "k", `{"app": "one"}`), launch(alice, "k", `{"app": "one"}`)
	if first.StatusCode != 201 || second.StatusCode != 201 || first.JSON["id"] != second.JSON["id"] {
		t.Errorf("%s and %s", first.text, second.text)
	}
	if got := launch(alice, "k", `{"app": "two"}`); got.StatusCode != 422 || got.JSON["kind"] != "conflict" {
		t.Errorf("another launch: %s", got.text)
	}
	for name, got := range map[string]response{
		"another key": launch(alice, "l", `{"app": "one"}`), "another owner": launch(bob, "k", `{"app": "one"}`),
	} {
		if got.StatusCode != 201 || got.JSON["id"] == first.JSON["id"] {
			t.Errorf("%s: %s", name, got.text)
		}
	}
	// A failed launch has made nothing, so the next request tries again.
	for range 2 {
		if got := launch(alice, "m", `{"memory": "x"}`); got.StatusCode != 400 || got.JSON["kind"] != "usage" {
			t.Errorf("a wrong launch: %s", got.text)
		}
	}
	if got := launch(alice, "m", `{}`); got.StatusCode != 201 {
		t.Errorf("after a failure: %s", got.text)
	}
	if got := launch(alice, strings.Repeat("k", 300), `{}`); got.StatusCode != 400 {
		t.Errorf("a long key: %s", got.Status)
	}
}

// bodies has a valid body for each operation that needs one.
var bodies = map[string]string{
	"exec": `{"command": "true"}`, "exec_input": `{"stdin": "x"}`, "sandbox_timeout": `{"timeout_seconds": 1}`,
	"file_edit": `{"path": "/tmp/f", "edits": [{"old": "a", "new": "b"}]}`, "file_mkdir": `{"path": "/x"}`,
	"packages_install": `{"packages": ["x"]}`, "network_set": `{"network": "none"}`, "run_code": `{"code": "1"}`,
	"volume_create": `{"name": "v"}`,
}

// requests calls do with a request for each operation of the document. Those on a sandbox are on sb.
func (c *apiClient) requests(sb string, do func(id, method, path, body string)) {
	fill := map[string]string{
		"sandbox": sb, "exec_id": "1", "package": "x", "path": "/tmp/f", "session": "s", "name": "n",
	}
	for _, template := range slices.Sorted(maps.Keys(c.doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(c.doc.Paths[template])) {
			op := c.doc.Paths[template][method]
			path, query := strings.TrimPrefix(template, "/api/v1"), []string{}
			for _, p := range op.Parameters {
				switch {
				case p.In == "path":
					path = strings.ReplaceAll(path, "{"+p.Name+"}", fill[p.Name])
				case p.In == "query" && p.Required:
					query = append(query, p.Name+"="+fill[p.Name])
				}
			}
			if len(query) > 0 {
				path += "?" + strings.Join(query, "&")
			}
			do(op.ID, strings.ToUpper(method), path, bodies[op.ID])
		}
	}
}

// No operation on a sandbox shows or changes another owner's.
func TestOwnersOverHTTP(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	alice, mallory := s.api(t, s.key(t, "alice")), s.api(t, s.key(t, "mallory"))
	sb := alice.launch(t, `{"name": "private"}`)
	alice.want(t, 200, "POST", sb+"/execs", `{"command": "echo hers > /tmp/f"}`)
	id := strings.TrimPrefix(sb, "/sandboxes/")
	if got := mallory.want(t, 200, "GET", "/sandboxes?all=true", ""); len(got.JSON["sandboxes"].([]any)) != 0 {
		t.Errorf("mallory sees %s", got.text)
	}
	seen := 0
	for _, ref := range []string{id, "fake%2F" + id, "mcp-alice-private", id[:6]} {
		mallory.requests(ref, func(op, method, path, body string) {
			switch {
			case strings.HasPrefix(op, "session_"), op == "events":
				path += "?sandbox=" + ref
			case op == "run_code":
				body = fmt.Sprintf(`{"code": "1", "sandbox": %q}`, strings.ReplaceAll(ref, "%2F", "/"))
			case !strings.Contains(path, ref):
				return
			}
			seen++
			got := mallory.send(t, method, path, body, nil)
			if got.StatusCode != 404 || strings.Contains(got.text, "hers") ||
				strings.Contains(strings.ReplaceAll(got.text, strings.ReplaceAll(ref, "%2F", "/"), ""), id) {
				t.Errorf("%s %s (%s): %s %s", method, path, op, got.Status, got.text)
			}
		})
	}
	if seen < 4*30 {
		t.Errorf("only %d requests were made", seen)
	}
	if got := alice.want(t, 200, "GET", sb+"/files?path=/tmp/f", ""); got.text != "hers\n" {
		t.Errorf("alice's file is %q", got.text)
	}
}

// A key that may only read changes nothing, and a server that only reads has no other routes.
func TestReadOnlyOverHTTP(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	owner, reader := s.api(t, s.key(t, "alice")), s.api(t, s.key(t, "alice", keys.ScopeRead))
	sb := strings.TrimPrefix(owner.launch(t, `{}`), "/sandboxes/")
	reader.requests(sb, func(op, method, path, body string) {
		if method == "GET" {
			return
		}
		if got := reader.send(t, method, path, body, nil); got.StatusCode != 403 || got.JSON["kind"] != "unauthorized" {
			t.Errorf("%s: %s %s", op, got.Status, got.text)
		}
	})
	reader.want(t, 200, "GET", "/sandboxes/"+sb, "")

	s = newSite(t, setup.Options{ReadOnly: true})
	c := s.api(t, "")
	c.want(t, 200, "GET", "/sandboxes", "")
	if got := c.want(t, 405, "POST", "/sandboxes", `{}`); got.Header.Get("Allow") != "GET" {
		t.Errorf("%v", got.Header)
	}
	c.want(t, 404, "POST", "/execute", `{"code": "1"}`)

	s = newSite(t, setup.Options{Toolsets: []string{setup.Sandboxes}})
	c = s.api(t, "")
	c.want(t, 404, "POST", c.launch(t, `{}`)+"/execs", `{"command": "true"}`)
}

// Refused requests are problems, wherever they are refused.
func TestProblemsOverHTTP(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{MaxBody: 1000}})
	c := s.api(t, s.key(t, "alice"))
	sb := c.launch(t, `{}`)
	for _, test := range []struct {
		status             int
		method, path, body string
	}{
		{400, "POST", "/sandboxes", `[]`},
		{400, "POST", "/sandboxes", `null`},
		{400, "POST", "/sandboxes", `{"color": "red"}`},
		{400, "POST", "/sandboxes?name=x", `{}`},
		{400, "POST", sb + "/execs", `{}`},
		{400, "POST", sb + "/execs", `{"command": "true", "sandbox": "other"}`},
		{400, "GET", "/sandboxes?all=perhaps", ""},
		{400, "GET", "/sandboxes?all=true&all=true", ""},
		{400, "GET", sb + "?color=red", ""},
		{400, "GET", sb + "/files", ""},
		{400, "GET", sb + "/logs?since=yesterday", ""},
		{400, "GET", sb + "/logs?tail=-1", ""},
		{404, "GET", sb + "/logs?exec_id=999&follow=true", ""},
		{404, "GET", sb + "/execs/999", ""},
		{404, "GET", "/nosuch", ""},
		{405, "PUT", "/sandboxes", ""},
		{413, "POST", "/sandboxes", `{"name": "` + strings.Repeat("x", 1000) + `"}`},
	} {
		c.want(t, test.status, test.method, test.path, test.body)
	}
	for name, test := range map[string]struct {
		status int
		change func(*http.Request)
	}{
		"no key":        {401, func(r *http.Request) { r.Header.Del("Authorization") }},
		"a wrong key":   {401, bearer("sb_x")},
		"a form":        {400, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
		"another page":  {403, func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:49152") }},
		"a rebound one": {403, func(r *http.Request) { r.Host = "evil.example" }},
	} {
		if got := c.send(t, "POST", "/sandboxes", `{}`, test.change); got.StatusCode != test.status {
			t.Errorf("%s: %s", name, got.Status)
		}
	}
	stranger := s.api(t, "")
	stranger.want(t, 200, "GET", "/health", "")
	stranger.want(t, 200, "GET", "/openapi.json", "")
	if got := c.want(t, 200, "GET", "/sandboxes", ""); len(got.JSON["sandboxes"].([]any)) != 1 {
		t.Errorf("a refused launch was made: %s", got.text)
	}

	slow := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: 1}}).api(t, "")
	for range 10 {
		if slow.send(t, "GET", "/sandboxes", "", nil).StatusCode == 429 {
			return
		}
	}
	t.Error("the rate has no limit")
}

// watched is a response that arrives.
type watched struct {
	header http.Header
	lines  chan string // closed at the end
	// err is why it ended, after lines is closed; nil if the server ended it.
	err error
}

// watch opens a stream.
func (c *apiClient) watch(t *testing.T, path, accept string) *watched {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.web.URL()+"/api/v1"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	bearer(c.key)(r)
	r.Header.Set("Accept", accept)
	got, err := c.http.Do(r) //nolint:bodyclose // the cleanup closes it
	if err != nil {
		t.Fatal(err)
	}
	w, done := &watched{header: got.Header, lines: make(chan string, 1000)}, make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.lines)
		scanner := bufio.NewScanner(got.Body)
		for scanner.Scan() {
			w.lines <- scanner.Text()
		}
		w.err = scanner.Err()
	}()
	t.Cleanup(func() {
		cancel()
		_ = got.Body.Close()
		for range w.lines { // it may wait for a reader
		}
		providertest.Receive(t, done)
	})
	return w
}

// An owner's stream has the events of the owner's sandboxes, and no others.
func TestEventsOverHTTP(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	alice, bob := s.api(t, s.key(t, "alice")), s.api(t, s.key(t, "bob"))
	hers, his := alice.launch(t, `{}`), bob.launch(t, `{}`)
	w := bob.watch(t, "/events", "text/event-stream")
	if kind := w.header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the type is %q", kind)
	}
	var event map[string]any
	for deadline := time.Now().Add(patience); event["type"] != "exec"; {
		if time.Now().After(deadline) {
			t.Fatal("there is no event of the command")
		}
		alice.want(t, 200, "POST", hers+"/execs", `{"argv": ["echo", "hers"]}`)
		bob.want(t, 200, "POST", his+"/execs", `{"argv": ["echo", "his"]}`)
		select {
		case line := <-w.lines:
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			event = nil
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				t.Fatal(err)
			}
			if event["sandbox"] != strings.TrimPrefix(his, "/sandboxes/") || strings.Contains(data, "hers") {
				t.Errorf("bob sees %s", data)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	alice.want(t, 200, "POST", hers+"/execs", `{"argv": ["echo", "hers"]}`)
	bob.want(t, 204, "DELETE", his, "")
	for line := range w.lines {
		if strings.Contains(line, "hers") || strings.Contains(line, strings.TrimPrefix(hers, "/sandboxes/")) {
			t.Errorf("bob sees %s", line)
		}
		if strings.Contains(line, `"operation":"terminate"`) {
			break
		}
	}
	s.web.Shutdown()
	for range w.lines { // until the end
	}
	if w.err != nil {
		t.Errorf("the stream does not end with the server: %v", w.err)
	}
}

// Output of a command that is followed comes as it is made, without the values of secrets.
func TestFollowedLogsOverHTTP(t *testing.T) {
	s := newSite(t, setup.Options{})
	c := s.api(t, s.key(t, "alice"))
	sb := c.launch(t, `{"secrets": {"TOKEN": "hunter22"}}`)
	id := c.want(t, 200, "POST", sb+"/execs",
		`{"command": "echo one $TOKEN; read x; echo two; printf '\\303'; printf '\\244'", "keep_stdin_open": true, "background": true}`).
		JSON["exec_id"].(string)
	w := c.watch(t, sb+"/logs?follow=true&exec_id="+id, "*/*")
	if kind := w.header.Get("Content-Type"); kind != "application/x-ndjson" {
		t.Errorf("the type is %q", kind)
	}
	text := ""
	for line := range w.lines {
		var record struct{ Text string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		text += record.Text
		if text == "one "+core.Redacted+"\n" {
			c.want(t, 200, "POST", sb+"/execs/"+id+"/input", `{"stdin": "x\n", "close_stdin": true}`)
		}
	}
	if want := "one " + core.Redacted + "\ntwo\nä"; text != want {
		t.Errorf("the output is %q, want %q", text, want)
	}
}

// broken is an API that fails after the beginning of a response of unknown length.
type broken struct{}

func (broken) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "a part")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func (broken) Shutdown() {}

// A download that fails on its way breaks the connection. Without that, the client takes the part for the whole.
func TestBrokenResponseIsNotWhole(t *testing.T) {
	b := newBench(t, setup.Options{HTTP: setup.HTTP{NoAuth: true}})
	b.endpoint.API = broken{}
	server := httptest.NewUnstartedServer(nil)
	web, err := b.NewWeb(server.Listener.Addr())
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = web
	server.Start()
	defer server.Close()
	defer web.Shutdown()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	got, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	if text, err := io.ReadAll(got.Body); err == nil || string(text) != "a part" {
		t.Errorf("%q, %v", text, err)
	}
}
