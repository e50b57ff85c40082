package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// modernRequest returns a message of protocol 2026-07-28. params are the fields beside the metadata.
func modernRequest(id, method, capabilities, params string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":%s}}}`, id, method, params, capabilities)
}

// modernHeader returns a function that adds the headers of a request of protocol 2026-07-28.
func modernHeader(method, name string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Mcp-Protocol-Version", mcp.ProtocolVersion20260728)
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	}
}

// sleeps starts a command that does not end, over HTTP at protocol 2026-07-28, and returns its sandbox and the call.
func (s *site) sleeps(t *testing.T) (sandbox string, call *listening) {
	t.Helper()
	sandbox = s.visit(t, "").Launch(nil)
	body := modernRequest("1", "tools/call", "{}", fmt.Sprintf(
		`"name":"exec","arguments":{"sandbox":%q,"command":"echo begun; sleep 600"}`, sandbox,
	))
	// The call asks for progress, so the answer begins before the command's end.
	body = strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":"t",`, 1)
	call = (&visitor{site: s, t: t}).Open("POST", body, modernHeader("tools/call", "exec"))
	if message, ok := call.next(); !ok || message.Method != "notifications/progress" {
		t.Fatalf("the call began with %+v", message)
	}
	return sandbox, call
}

// At 2026-07-28, a client that closes the stream of a call cancels the call.
func TestDisconnectCancels(t *testing.T) {
	s := newSite(t, setup.Options{})
	sandbox, call := s.sleeps(t)
	call.hangUp()
	eventually(t, "the command has ended", func() bool { return !s.runs(t, sandbox) })
}

// A server that stops does not cancel calls.
func TestShutdownCancelsNothing(t *testing.T) {
	s := newSite(t, setup.Options{})
	sandbox, _ := s.sleeps(t)
	s.web.Shutdown()
	s.server.CloseClientConnections()
	s.server.Close() // waits for the call
	s.Close()        // waits for what the call started
	if !s.runs(t, sandbox) {
		t.Error("the command was ended")
	}
}

// Notifications need no metadata.
func TestModernNotifications(t *testing.T) {
	s := newSite(t, setup.Options{})
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
	} {
		if response, text := s.ask(t, "POST", "/mcp", body, modernHeader("", "")); response.StatusCode != 202 {
			t.Errorf("%s: %s %s", body, response.Status, text)
		}
	}
}

// Each request for subscriptions is acknowledged, one for nothing that this server has too.
func TestListensAreAcknowledged(t *testing.T) {
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	v := &visitor{site: s, t: t}
	for i := range 200 {
		listen := v.Open("POST", modernRequest(
			fmt.Sprint(i), "subscriptions/listen", "{}", `"notifications":{"toolsListChanged":true}`,
		), modernHeader("subscriptions/listen", ""))
		if message, ok := listen.next(); !ok || message.Method != mcp.MethodNotificationSubscriptionsAcknowledged {
			t.Fatalf("listen %d began with %+v", i, message)
		}
		listen.hangUp()
	}
}

// Over stdio, a client of 2026-07-28 gets only the changes that it listens to, each with the id of the request.
func TestListensOverStdio(t *testing.T) {
	b := newBench(t, setup.Options{})
	other := b.connect(t)
	sandbox := other.Launch(nil)
	type note struct {
		ID     json.RawMessage
		Method string
		Params struct {
			URI  string
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		Result json.RawMessage
	}
	connect := func() (say func(string), next func() note, end func()) {
		toServer, fromClient := io.Pipe()
		toClient, fromServer := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- b.ServeStdio(t.Context(), toServer, fromServer) }()
		lines := bufio.NewScanner(toClient)
		return func(message string) {
				if _, err := io.WriteString(fromClient, message+"\n"); err != nil {
					t.Error(err)
				}
			}, func() (got note) {
				if !lines.Scan() {
					t.Fatal("the server said nothing")
				}
				if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				return got
			}, func() {
				_ = fromClient.Close()
				go func() { _, _ = io.Copy(io.Discard, toClient) }()
				if err := providertest.Receive(t, served); err != nil {
					t.Error(err)
				}
				_ = fromServer.Close()
			}
	}
	say, next, end := connect()
	defer end()
	silent, hears, leave := connect()
	defer leave()
	silent(modernRequest("1", "tools/list", "{}", ""))
	if got := hears(); got.Result == nil {
		t.Fatalf("got %+v", got)
	}
	for id, filter := range map[string]string{
		"9007199254740993": `"resourcesListChanged":true`,
		`"a"`:              fmt.Sprintf(`"resourceSubscriptions":["sandbox://%s"]`, sandbox),
	} {
		say(modernRequest(id, "subscriptions/listen", "{}", `"notifications":{`+filter+`}`))
		got := next()
		if got.Method != mcp.MethodNotificationSubscriptionsAcknowledged ||
			string(got.Params.Meta[mcp.MetaKeySubscriptionID]) != id {
			t.Fatalf("listen %s began with %+v", id, got)
		}
	}
	other.Call("sandbox_terminate", args{"sandbox": sandbox})
	want := map[string]string{
		"9007199254740993": mcp.MethodNotificationResourcesListChanged, `"a"`: mcp.MethodNotificationResourceUpdated,
	}
	for len(want) > 0 {
		got := next()
		id := string(got.Params.Meta[mcp.MetaKeySubscriptionID])
		if method, waited := want[id]; waited && method != got.Method || id == "" {
			t.Fatalf("got %+v", got)
		}
		delete(want, id)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
	for got := next(); string(got.ID) != `"a"`; got = next() {
		if got.ID != nil || len(got.Params.Meta) == 0 {
			t.Fatalf("got %+v", got)
		}
	}
	silent(modernRequest("2", "tools/list", "{}", ""))
	if got := hears(); string(got.ID) != "2" {
		t.Errorf("a client that listens to nothing got %+v", got)
	}
}

// A client that only opens URLs for the user is not asked to show a form.
func TestFormsNeedAClientThatShowsThem(t *testing.T) {
	s := newSite(t, setup.Options{})
	launch := `"name":"sandbox_launch","arguments":{"gpu":"T4"}`
	for capabilities, asks := range map[string]bool{
		`{"elicitation":{}}`: true, `{"elicitation":{"form":{}}}`: true, `{"elicitation":{"form":{},"url":{}}}`: true,
		`{"elicitation":{"url":{}}}`: false, `{}`: false,
	} {
		_, text := s.ask(t, "POST", "/mcp", modernRequest("1", "tools/call", capabilities, launch),
			modernHeader("tools/call", "sandbox_launch"))
		if asked := strings.Contains(text, "input_required"); asked != asks {
			t.Errorf("%s: %s", capabilities, text)
		}
	}
	v := s.drop(t, `{"elicitation":{"url":{}}}`)
	_, text := s.ask(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+launch+`}}`, v.inside)
	if !strings.Contains(text, `"result"`) || strings.Contains(text, "elicitation/create") {
		t.Errorf("over 2025-11-25: %s", text)
	}
}
