//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// restClient speaks the routes below /api/v1/.
type restClient struct {
	t        *testing.T
	url, key string
}

// restAnswer is a response with its whole body.
type restAnswer struct {
	status int
	kind   string // the content type
	text   []byte
}

// new makes a request.
func (c restClient) new(ctx context.Context, method, path, body string) *http.Request {
	c.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	return request
}

// request sends a request and reads the response.
func (c restClient) request(method, path, body string) restAnswer {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*patience)
	defer cancel()
	response, err := http.DefaultClient.Do(c.new(ctx, method, path, body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return restAnswer{response.StatusCode, response.Header.Get("Content-Type"), text}
}

// execute runs code and returns the messages.
func (c restClient) execute(body map[string]any) []map[string]any {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	got := c.request("POST", "/api/v1/execute", string(text))
	if got.status != http.StatusOK || got.kind != "application/x-ndjson" {
		c.t.Fatalf("%+v: %s", got, got.text)
	}
	var messages []map[string]any
	decoder := json.NewDecoder(bytes.NewReader(got.text))
	for decoder.More() {
		var message map[string]any
		if err := decoder.Decode(&message); err != nil {
			c.t.Fatal(err)
		}
		messages = append(messages, message)
	}
	return messages
}

// problem returns the problem of a request that fails.
func (c restClient) problem(status int, method, path, body string) map[string]any {
	c.t.Helper()
	got := c.request(method, path, body)
	var problem map[string]any
	err := json.Unmarshal(got.text, &problem)
	if err != nil || got.status != status || got.kind != "application/problem+json" {
		c.t.Errorf("%s %s: %d, %s, %v", method, path, got.status, got.text, err)
	}
	return problem
}

// The routes and messages of python-sandbox-mcp.
func TestExecuteOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url, _ := h.listen("--transport", "streamable-http")
	key, err := os.ReadFile(filepath.Join(h.dir, "state", "sb", "mcp.key"))
	if err != nil {
		t.Fatal(err)
	}
	c := restClient{t, url, strings.TrimSpace(string(key))}
	stranger := restClient{t, url, ""}
	if got := stranger.request("POST", "/api/v1/execute", `{"code": "1"}`); got.status != http.StatusUnauthorized {
		t.Errorf("without the key: %d", got.status)
	}
	if got := stranger.request("GET", "/api/v1/health", ""); got.status != http.StatusOK {
		t.Errorf("health: %d", got.status)
	}
	got := c.execute(map[string]any{"code": "print('Hello, World!')\nx = 1", "session_id": "my-session"})
	if len(got) != 2 || got[0]["text"] != "Hello, World!\n" || got[1]["status"] != "ok" {
		t.Errorf("the first run: %v", got)
	}
	if got := c.execute(map[string]any{"code": "x + 1", "session_id": "my-session"}); got[0]["text"] != "2" {
		t.Errorf("the variable: %v", got)
	}
	if got := c.execute(map[string]any{"code": picture}); got[0]["image"] != pixel || got[0]["format"] != "png" {
		t.Errorf("the picture: %v", got)
	}
	got = c.execute(map[string]any{"code": "undefined_var"})
	if trace, _ := got[0]["traceback"].([]any); got[0]["error"] != "NameError: name 'undefined_var' is not defined" ||
		len(trace) == 0 || got[1]["status"] != "error" {
		t.Errorf("an error: %v", got)
	}
	got = c.execute(map[string]any{"code": "while True: pass", "timeout": 0.5})
	if got[0]["error"] != "TimeoutError: the time limit of the run is over" {
		t.Errorf("a time limit: %v", got)
	}

	if problem := c.problem(http.StatusBadRequest, "POST", "/api/v1/execute", `{"code": 1}`); problem["kind"] != "usage" {
		t.Errorf("a wrong body: %v", problem)
	}
	c.problem(http.StatusNotFound, "POST", "/api/v1/execute", `{"code": "1", "sandbox": "nosuch"}`)
	c.execute(map[string]any{"code": "import os\nos._exit(1) if 'gone' in globals() else None\ngone = 1", "session_id": "short"})
	got = c.execute(map[string]any{"code": "print(1, flush=True)\nos._exit(1)", "session_id": "short"})
	if last := got[len(got)-1]; last["status"] != "error" || !strings.Contains(last["error"].(string), "restart") {
		t.Errorf("a session that ends: %v", got)
	}
	c.problem(http.StatusConflict, "POST", "/api/v1/execute", `{"code": "1", "session_id": "short"}`)
	if got := c.execute(map[string]any{"code": "2", "session_id": "short", "restart": true}); got[0]["text"] != "2" {
		t.Errorf("restarted: %v", got)
	}

	var all struct {
		Sessions []struct {
			ID string `json:"session_id"`
		}
		Total int
	}
	if err := json.Unmarshal(c.request("GET", "/api/v1/sessions", "").text, &all); err != nil || all.Total != 3 ||
		all.Sessions[1].ID != "my-session" {
		t.Errorf("sessions: %+v, %v", all, err)
	}
	if got := c.request("DELETE", "/api/v1/sessions/short", ""); got.status != http.StatusNoContent {
		t.Errorf("ended: %d", got.status)
	}
	c.problem(http.StatusNotFound, "DELETE", "/api/v1/sessions/short", "")
}

// Server-sent events carry the same messages. A client that disconnects interrupts its code.
func TestEventsOfARunOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url, _ := h.listen("--transport", "streamable-http", "--no-auth")
	c := restClient{t, url, ""}
	ctx, leave := context.WithCancel(t.Context())
	request := c.new(ctx, "POST", "/api/v1/execute",
		`{"code": "import time\nprint('on')\nwhile True: time.sleep(0.01)"}`)
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || line != `data: {"text":"on\n"}`+"\n" || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%q, %v", line, err)
	}
	leave()
	// The next run of the session waits for the end of that one.
	if got := c.execute(map[string]any{"code": "6 * 7"}); got[0]["text"] != "42" {
		t.Errorf("after the interrupt: %v", got)
	}
}

// "sb serve" serves the operations over plain HTTP, and assistants beside them.
func TestServe(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := h.start("serve", "--port", "0")
	url := h.urlOf(s)
	key, err := os.ReadFile(filepath.Join(h.dir, "state", "sb", "mcp.key"))
	if err != nil {
		t.Fatal(err)
	}
	c := restClient{t, url, strings.TrimSpace(string(key))}
	if got := c.request("POST", "/api/v1/sandboxes", `{"name": "dev", "image": "host"}`); got.status != http.StatusCreated {
		t.Fatalf("the launch: %d, %s", got.status, got.text)
	}
	got := c.request("PUT", "/api/v1/sandboxes/dev/files?path=/tmp/x.py", "print(6 * 7)")
	if got.status != http.StatusNoContent {
		t.Errorf("the upload: %d, %s", got.status, got.text)
	}
	var result struct {
		Stdout string `json:"stdout"`
	}
	got = c.request("POST", "/api/v1/sandboxes/dev/execs", `{"argv": ["python3", "/tmp/x.py"]}`)
	if err := json.Unmarshal(got.text, &result); err != nil || result.Stdout != "42\n" {
		t.Errorf("the command: %d, %s", got.status, got.text)
	}
	if out := h.sb("ls"); !strings.Contains(out, "mcp-dev") {
		t.Errorf("sb ls: %s", out)
	}
	if got := c.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`); got.status !=
		http.StatusOK {
		t.Errorf("an assistant: %d, %s", got.status, got.text)
	}
	if got := c.request("DELETE", "/api/v1/sandboxes/dev", ""); got.status != http.StatusNoContent {
		t.Errorf("the end: %d, %s", got.status, got.text)
	}
	for _, flag := range []string{"--transport", "--list-tools"} {
		if out := h.sb("serve", flag); !strings.Contains(out, "unknown flag") {
			t.Errorf("sb serve %s: %s", flag, out)
		}
	}
}
