//go:build linux

package main

import (
	"bufio"
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

func (c restClient) request(ctx context.Context, method, path, body string, header ...string) *http.Response {
	c.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// execute runs code and returns the messages.
func (c restClient) execute(body map[string]any) []map[string]any {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*patience)
	defer cancel()
	response := c.request(ctx, "POST", "/api/v1/execute", string(text))
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/x-ndjson" {
		answer, _ := io.ReadAll(response.Body)
		c.t.Fatalf("%s, %q: %s", response.Status, response.Header.Get("Content-Type"), answer)
	}
	var messages []map[string]any
	decoder := json.NewDecoder(response.Body)
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
	response := c.request(c.t.Context(), method, path, body)
	var problem map[string]any
	err := json.NewDecoder(response.Body).Decode(&problem)
	if err != nil || response.StatusCode != status || response.Header.Get("Content-Type") != "application/problem+json" {
		c.t.Errorf("%s %s: %s, %v, %v", method, path, response.Status, problem, err)
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
	if response := (restClient{t, url, ""}).request(t.Context(), "POST", "/api/v1/execute", `{"code": "1"}`); response.
		StatusCode != http.StatusUnauthorized {
		t.Errorf("without the key: %s", response.Status)
	}
	if response := (restClient{t, url, ""}).request(t.Context(), "GET", "/api/v1/health", ""); response.
		StatusCode != http.StatusOK {
		t.Errorf("health: %s", response.Status)
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
	got = c.execute(map[string]any{"code": "print(1)\nimport time\ntime.sleep(0.2)\nos._exit(1)", "session_id": "short"})
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
	if err := json.NewDecoder(c.request(t.Context(), "GET", "/api/v1/sessions", "").Body).Decode(&all); err != nil ||
		all.Total != 3 || all.Sessions[1].ID != "my-session" {
		t.Errorf("sessions: %+v, %v", all, err)
	}
	if response := c.request(t.Context(), "DELETE", "/api/v1/sessions/short", ""); response.
		StatusCode != http.StatusNoContent {
		t.Errorf("ended: %s", response.Status)
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
	response := c.request(ctx, "POST", "/api/v1/execute",
		`{"code": "import time\nprint('on')\nwhile True: time.sleep(0.01)"}`, "Accept", "text/event-stream")
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
