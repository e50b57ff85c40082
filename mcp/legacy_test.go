package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
	"github.com/seed-0724f904/sb/mcp/transport"
)

// visitor is a client with a session. It sees the stream of each message.
type visitor struct {
	*site
	t       testing.TB
	session string
}

// drop starts the session of a client with the given capabilities, as JSON.
func (s *site) drop(t testing.TB, capabilities string) *visitor {
	t.Helper()
	response, text := s.ask(t, "POST", "/mcp", strings.Replace(initialize, `"capabilities":{}`, `"capabilities":`+
		capabilities, 1), nil)
	id := response.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("no session: %s %s", response.Status, text)
	}
	return &visitor{site: s, t: t, session: id}
}

// inside adds the session to a request.
func (v *visitor) inside(r *http.Request) { r.Header.Set("Mcp-Session-Id", v.session) }

// held returns the state of the visitor's session.
func (v *visitor) held() transport.Held {
	held, _ := v.web.Held(v.session)
	return held
}

// serverMessage is a message of the server.
type serverMessage struct {
	id     string // of the event; "" if the answer is not a stream
	ID     json.RawMessage
	Method string
	Params struct {
		ProgressToken string
		Progress      int
		Message, URI  string
	}
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// listening is a response that the test reads message by message.
type listening struct {
	t        testing.TB
	response *http.Response
	lines    *bufio.Scanner
	hangUp   context.CancelFunc
}

// Open sends a request and returns its answer before the end.
func (v *visitor) Open(method, body string, change func(*http.Request)) *listening {
	v.t.Helper()
	ctx, cancel := context.WithCancel(v.t.Context())
	request, err := http.NewRequestWithContext(ctx, method, v.web.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	v.inside(request)
	if change != nil {
		change(request)
	}
	response, err := v.http.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	l := &listening{t: v.t, response: response, lines: bufio.NewScanner(response.Body)}
	l.lines.Buffer(nil, 16<<20)
	l.hangUp = sync.OnceFunc(func() {
		cancel()
		_ = response.Body.Close()
	})
	v.t.Cleanup(l.hangUp)
	return l
}

// next returns the next message; ok is false at the end.
func (l *listening) next() (message serverMessage, ok bool) {
	l.t.Helper()
	id := ""
	for l.lines.Scan() {
		line := l.lines.Text()
		if rest, is := strings.CutPrefix(line, "id: "); is {
			id = rest
		}
		data, is := strings.CutPrefix(line, "data: ")
		if !is && !strings.HasPrefix(line, "{") {
			continue
		}
		if !is {
			data = line
		}
		if err := json.Unmarshal([]byte(data), &message); err != nil {
			l.t.Errorf("%q: %v", line, err)
		}
		message.id = id
		return message, true
	}
	return message, false
}

// rest reads all remaining messages.
func (l *listening) rest() (all []serverMessage) {
	l.t.Helper()
	for message, ok := l.next(); ok; message, ok = l.next() {
		all = append(all, message)
	}
	return all
}

// callBody returns a call of a tool without arguments. The progress token contains the id.
func callBody(id int, tool string) string {
	return fmt.Sprintf(
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{},"_meta":{"progressToken":"call %d"}}}`,
		id, tool, id,
	)
}

// checkCall reports an error unless got is a complete call of test_tool_with_progress, from a step on.
func checkCall(t testing.TB, id, from int, got []serverMessage) {
	t.Helper()
	steps := []string{"begin", "middle", "end"}[from:]
	if len(got) != len(steps)+1 {
		t.Errorf("call %d: %d messages came: %+v", id, len(got), got)
		return
	}
	for i, step := range steps {
		if p := got[i].Params; p.ProgressToken != fmt.Sprintf("call %d", id) || p.Progress != from+i+1 || p.Message != step {
			t.Errorf("call %d: message %d is %+v", id, i, got[i])
		}
	}
	if last := got[len(steps)]; string(last.ID) != fmt.Sprint(id) || last.Result == nil {
		t.Errorf("call %d ends with %+v", id, last)
	}
}

// Each call's notifications come on its own stream, in order and before its result, beside other calls of the session.
func TestConcurrentCallsDoNotMix(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	addFixtures(s.Server)
	v := s.drop(t, `{}`)
	get := v.Open("GET", "", nil)
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			for round := range 25 {
				id := 100*client + round
				checkCall(t, id, 0, v.Open("POST", callBody(id, "test_tool_with_progress"), nil).rest())
			}
		})
	}
	wg.Wait()
	s.mcp.SendNotificationToAllClients(mcp.MethodNotificationResourcesListChanged, nil)
	if first, ok := get.next(); !ok || first.Method != mcp.MethodNotificationResourcesListChanged {
		t.Errorf("the stream of no call carries %+v", first)
	}
}

// addSteps adds a tool that reports three steps. After each step, it waits for next.
func addSteps(s *Server) (next chan struct{}) {
	next = make(chan struct{})
	tool := fixture("steps", "", func(ctx context.Context, c *tools.Call, _ map[string]any) (*mcp.CallToolResult, error) {
		for _, step := range []string{"begin", "middle", "end"} {
			c.Progress(ctx, step)
			select {
			case <-next:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return mcp.NewToolResultText("done"), nil
	})
	s.mcp.AddTool(tool.Definition(), s.handler(tool))
	return next
}

// resume resumes a stream after an event.
func (v *visitor) resume(after string) *listening {
	v.t.Helper()
	return v.Open("GET", "", func(r *http.Request) { r.Header.Set("Last-Event-ID", after) })
}

// A call continues when its connection breaks. Another connection gets the missed messages, then the new ones, each
// once.
func TestResumeCall(t *testing.T) {
	s := newSite(t, setup.Options{})
	next := addSteps(s.Server)
	v := s.drop(t, `{}`)
	post := v.Open("POST", callBody(7, "steps"), nil)
	first, ok := post.next()
	if !ok || first.Params.Message != "begin" {
		t.Fatalf("it begins with %+v", first)
	}
	post.hangUp()
	next <- struct{}{}
	eventually(t, "the second step is in the stream", func() bool { return v.held().Sent == 2 })
	get := v.resume(first.id)
	missed, ok := get.next()
	if !ok || missed.Params.Message != "middle" {
		t.Fatalf("the missed messages are %+v", missed)
	}
	next <- struct{}{}
	next <- struct{}{}
	checkCall(t, 7, 1, append([]serverMessage{missed}, get.rest()...))
	// The whole stream can be read again after the call has ended.
	checkCall(t, 7, 1, v.resume(first.id).rest())
	checkCall(t, 7, 2, v.resume(missed.id).rest())
}

// The server's requests during a call use the call's own stream. The answers reach their calls in any order.
func TestConcurrentCallsAsk(t *testing.T) {
	s := newSite(t, setup.Options{})
	addFixtures(s.Server)
	v := s.drop(t, `{"elicitation":{}}`)
	get := v.Open("GET", "", nil)
	ask := func(id int) (*listening, serverMessage) {
		l := v.Open(
			"POST",
			fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"test_elicitation","arguments":{"message":"ask %d"}}}`,
				id, id,
			),
			nil,
		)
		question, ok := l.next()
		if !ok || question.Method != "elicitation/create" || question.Params.Message != fmt.Sprintf("ask %d", id) {
			t.Fatalf("call %d is asked %+v", id, question)
		}
		return l, question
	}
	one, first := ask(1)
	two, second := ask(2)
	for _, test := range []struct {
		question serverMessage
		call     *listening
		id       int
	}{{second, two, 2}, {first, one, 1}} {
		answer := fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"username":"user %d"}}}`, test.question.ID, test.id,
		)
		if response, text := s.ask(t, "POST", "/mcp", answer, v.inside); response.StatusCode != 202 {
			t.Errorf("the answer: %s %s", response.Status, text)
		}
		if rest := test.call.rest(); len(rest) != 1 || string(rest[0].ID) != fmt.Sprint(test.id) ||
			!strings.Contains(string(rest[0].Result), fmt.Sprintf("user %d", test.id)) {
			t.Errorf("call %d ends with %+v", test.id, rest)
		}
	}
	// An answer that no request waits for is accepted.
	if response, _ := s.ask(
		t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`, v.inside,
	); response.StatusCode != 202 {
		t.Errorf("a late answer: %s", response.Status)
	}
	s.mcp.SendNotificationToAllClients(mcp.MethodNotificationResourcesListChanged, nil)
	if message, ok := get.next(); !ok || message.Method != mcp.MethodNotificationResourcesListChanged {
		t.Errorf("the stream of no call carries %+v", message)
	}
}

// A message of no call waits for a GET, and goes to only one. A GET that names an event resumes after it.
func TestSessionStream(t *testing.T) {
	s := newSite(t, setup.Options{})
	v := s.drop(t, `{}`)
	notify := func(uri string) {
		s.mcp.SendNotificationToAllClients(mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
	}
	expect := func(l *listening, uri string) string {
		t.Helper()
		message, ok := l.next()
		if !ok || message.Params.URI != uri {
			t.Fatalf("%q arrives as %+v", uri, message)
		}
		return message.id
	}
	notify("a")
	first := v.Open("GET", "", nil)
	a := expect(first, "a")
	notify("b")
	expect(first, "b")
	second := v.Open("GET", "", nil)
	if rest := first.rest(); len(rest) != 0 {
		t.Errorf("the superseded connection receives %+v", rest)
	}
	notify("c")
	c := expect(second, "c")
	second.hangUp()
	notify("d")
	third := v.resume(a)
	for _, uri := range []string{"b", "c", "d"} {
		expect(third, uri)
	}
	notify("e")
	expect(third, "e")
	third.hangUp()
	last := v.resume(c)
	expect(last, "d")
	expect(last, "e")
}

// A DELETE ends the session, its streams and its calls. Later requests of the session fail.
func TestDeletedSession(t *testing.T) {
	s := newSite(t, setup.Options{})
	addSteps(s.Server)
	v := s.drop(t, `{}`)
	get := v.Open("GET", "", nil)
	post := v.Open("POST", callBody(1, "steps"), nil)
	begun, _ := post.next()
	if response, text := s.ask(t, "DELETE", "/mcp", "", v.inside); response.StatusCode != 200 {
		t.Fatalf("%s %s", response.Status, text)
	}
	if rest := post.rest(); len(rest) != 1 || !strings.Contains(string(rest[0].Result), `"isError":true`) {
		t.Errorf("the call ends with %+v", rest)
	}
	if rest := get.rest(); len(rest) != 0 {
		t.Errorf("the stream of no call ends with %+v", rest)
	}
	for _, request := range []struct{ method, body string }{
		{"GET", ""},
		{"DELETE", ""},
		{"POST", callBody(2, "steps")},
		{"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
	} {
		response, text := s.ask(t, request.method, "/mcp", request.body, func(r *http.Request) {
			v.inside(r)
			r.Header.Set("Last-Event-ID", begun.id)
		})
		if response.StatusCode != 404 {
			t.Errorf("%s %s: %s %s", request.method, request.body, response.Status, text)
		}
	}
	eventually(t, "it is unregistered", func() bool {
		return !s.sessions.Belongs(v.session, auth.OwnerKey(auth.Identity{}))
	})
}

// Requests with invalid headers are refused before they take effect.
func TestMalformedHeaders(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	v := s.drop(t, `{}`)
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, test := range map[string]struct {
		method, body string
		head         map[string]string
		status       int
	}{
		"right":               {"POST", ping, nil, 200},
		"older":               {"POST", ping, map[string]string{"MCP-Protocol-Version": "2025-03-26"}, 200},
		"with a charset":      {"POST", ping, map[string]string{"Content-Type": "application/json; charset=utf-8"}, 200},
		"version":             {"POST", ping, map[string]string{"MCP-Protocol-Version": "1999-01-01"}, 400},
		"version of GET":      {"GET", "", map[string]string{"MCP-Protocol-Version": "1999-01-01"}, 400},
		"version of DELETE":   {"DELETE", "", map[string]string{"MCP-Protocol-Version": "1999-01-01"}, 400},
		"modern GET":          {"GET", "", map[string]string{"MCP-Protocol-Version": "2026-07-28"}, 405},
		"modern DELETE":       {"DELETE", "", map[string]string{"MCP-Protocol-Version": "2026-07-28"}, 405},
		"content":             {"POST", ping, map[string]string{"Content-Type": "text/plain"}, 400},
		"no content":          {"POST", ping, map[string]string{"Content-Type": ""}, 400},
		"no message":          {"POST", "{", nil, 400},
		"a batch":             {"POST", "[" + ping + "]", nil, 400},
		"no session":          {"POST", ping, map[string]string{"Mcp-Session-Id": ""}, 400},
		"no session of GET":   {"GET", "", map[string]string{"Mcp-Session-Id": ""}, 400},
		"another session":     {"POST", ping, map[string]string{"Mcp-Session-Id": "other"}, 404},
		"another of GET":      {"GET", "", map[string]string{"Mcp-Session-Id": "other"}, 404},
		"another of DELETE":   {"DELETE", "", map[string]string{"Mcp-Session-Id": "other"}, 404},
		"event":               {"GET", "", map[string]string{"Last-Event-ID": "x"}, 400},
		"event of no stream":  {"GET", "", map[string]string{"Last-Event-ID": "9-1"}, 400},
		"event that is to be": {"GET", "", map[string]string{"Last-Event-ID": "0-1"}, 400},
		"notification":        {"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202},
		"no initialization": {
			"POST", `{"jsonrpc":"2.0","method":"initialize"}`, map[string]string{"Mcp-Session-Id": ""}, 202,
		},
		"method": {"PUT", ping, nil, 404},
	} {
		response, text := s.ask(t, test.method, "/mcp", test.body, func(r *http.Request) {
			v.inside(r)
			for key, value := range test.head {
				r.Header.Set(key, value)
			}
		})
		if response.StatusCode != test.status {
			t.Errorf("%s: %s %s", name, response.Status, text)
		}
		if kind := response.Header.Get("Content-Type"); test.status == 200 && kind != "application/json" {
			t.Errorf("%s: an answer alone comes as %s", name, kind)
		}
	}
	if response, text := s.ask(
		t, "POST", "/mcp", strings.Replace(initialize, `{"protocolVersion"`, `[{"protocolVersion"`, 1), nil,
	); response.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("a session of no client: %s", text)
	}
	eventually(t, "no session is left but the one", func() bool {
		return s.web.Sessions() == 1
	})
}

// A client can have a bounded number of calls at the same time, and can still cancel them.
func TestTooManyCalls(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	addSteps(s.Server)
	v := s.drop(t, `{}`)
	var calls []*listening
	for id := range transport.MaxConcurrent {
		calls = append(calls, v.Open("POST", callBody(id, "steps"), nil))
	}
	if response, text := s.ask(t, "POST", "/mcp", callBody(1000, "steps"), v.inside); response.StatusCode != 429 ||
		!strings.Contains(text, `"id":1000`) {
		t.Errorf("one too many: %s %s", response.Status, text)
	}
	s.ask(t, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`, v.inside)
	if rest := calls[3].rest(); len(rest) != 2 {
		t.Errorf("a canceled call ends with %+v", rest)
	}
	eventually(t, "there is room for another", func() bool {
		response, _ := s.ask(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1001,"method":"ping"}`, v.inside)
		return response.StatusCode == 200
	})
}

// direct is a client in the server's process, so that the test can control time.
type direct struct {
	*bench
	web     *transport.Web
	session string
}

func newDirect(t *testing.T, opts setup.Options) *direct {
	t.Helper()
	opts.HTTP.NoAuth = true
	b := newBench(t, opts)
	web, err := b.NewWeb(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Shutdown)
	d := &direct{bench: b, web: web}
	d.session = d.ask(t.Context(), "POST", initialize).Header().Get("Mcp-Session-Id")
	return d
}

func (d *direct) ask(ctx context.Context, method, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, method, d.web.URL()+"/mcp", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	if d.session != "" {
		request.Header.Set("Mcp-Session-Id", d.session)
	}
	recorder := httptest.NewRecorder()
	d.web.ServeHTTP(recorder, request)
	return recorder
}

// Call calls a tool and returns its output.
func (d *direct) Call(t *testing.T, tool, arguments string) map[string]any {
	t.Helper()
	response := d.ask(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+
		`","arguments":`+arguments+`}}`)
	var got struct {
		Result struct {
			Meta map[string]map[string]any `json:"_meta"`
		}
	}
	if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil || got.Result.Meta[tools.RecordKey] == nil {
		t.Fatalf("%s: %d %s", tool, response.Code, response.Body)
	}
	return got.Result.Meta[tools.RecordKey]
}

// A session ends after a lease without a request. A GET that listens is a request, and receives pings.
func TestIdleSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(t, setup.Options{Lease: 5 * time.Minute})
		ask := d.ask
		listen, hangUp := context.WithTimeout(t.Context(), 12*time.Minute)
		defer hangUp()
		if body := ask(listen, "GET", "").Body.String(); strings.Count(body, `"method":"ping"`) != int(
			12*time.Minute/transport.KeepAliveEvery,
		) || strings.Contains(body, "id: ") {
			t.Errorf("the stream is kept alive with %q", body)
		}
		ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		for range 3 {
			time.Sleep(4 * time.Minute)
			if response := ask(t.Context(), "POST", ping); response.Code != 200 {
				t.Fatalf("it has ended: %d %s", response.Code, response.Body)
			}
		}
		time.Sleep(5*time.Minute + time.Second)
		if response := ask(t.Context(), "POST", ping); response.Code != 404 {
			t.Errorf("it is still there: %d %s", response.Code, response.Body)
		}
	})
}

// A client that does not read its call's stream does not block the call. The kept messages are bounded. The client gets
// the newest ones, in order, when it reads.
func TestClientDoesNotRead(t *testing.T) {
	s := newSite(t, setup.Options{})
	const notes = 300
	long := strings.Repeat("x", 64<<10)
	tool := fixture("flood", "", func(ctx context.Context, c *tools.Call, _ map[string]any) (*mcp.CallToolResult, error) {
		for range notes {
			c.Progress(ctx, long)
		}
		return mcp.NewToolResultText("done"), nil
	})
	s.mcp.AddTool(tool.Definition(), s.handler(tool))
	v := s.drop(t, `{}`)
	post := v.Open("POST", callBody(1, "flood"), nil)
	eventually(t, "the call ends", func() bool { return v.held().PastCalls == 1 })
	if held := v.held(); held.Messages > transport.KeptMessages || held.Bytes > transport.KeptBytes {
		t.Errorf("%d messages are kept, %d bytes", held.Messages, held.Bytes)
	}
	last := 0
	all := post.rest()
	for _, message := range all[:len(all)-1] {
		if message.Params.Progress <= last {
			t.Fatalf("after %d comes %d", last, message.Params.Progress)
		}
		last = message.Params.Progress
	}
	if end := all[len(all)-1]; string(end.ID) != "1" || end.Result == nil {
		t.Errorf("it ends with %+v", end)
	}
}

// Changes of subscribed resources come on the stream of no call, for any subscribing request and any cause of the
// change.
func TestSubscriptionsOverHTTP(t *testing.T) {
	s := newSite(t, setup.Options{})
	v := s.drop(t, `{}`)
	other := s.visit(t, "")
	uri := "sandbox://" + other.Launch(nil)
	subscribe := func(method string) {
		t.Helper()
		if response, text := s.ask(
			t, "POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"uri":%q}}`, method, uri), v.inside,
		); !strings.Contains(text, `"result"`) {
			t.Fatalf("%s: %s %s", method, response.Status, text)
		}
	}
	subscribe("resources/subscribe")
	get := v.Open("GET", "", nil)
	other.Call("sandbox_terminate", args{"all": true})
	for message, ok := get.next(); message.Method != mcp.MethodNotificationResourceUpdated ||
		message.Params.URI != uri; message, ok = get.next() {
		if !ok || message.Method != mcp.MethodNotificationResourcesListChanged {
			t.Fatalf("the message is %+v", message)
		}
	}
	subscribe("resources/unsubscribe")
	s.subscribed.mu.Lock()
	defer s.subscribed.mu.Unlock()
	if len(s.subscribed.byURI) != 0 {
		t.Errorf("there are still subscriptions: %v", s.subscribed.byURI)
	}
}
