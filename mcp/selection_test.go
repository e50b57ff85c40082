package mcp

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// selecting returns the headers of a request of protocol 2026-07-28 and those of pairs.
func selecting(method, name string, pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		modernHeader(method, name)(r)
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Set(pairs[i], pairs[i+1])
		}
	}
}

// A request selects among the tools of the server, by its headers or its URL, in both eras of the protocol.
func TestSelectionOfARequest(t *testing.T) {
	s := newSite(t, setup.Options{Toolsets: []string{setup.All}, HTTP: setup.HTTP{Rate: -1}})
	old := s.drop(t, "{}")
	names := func(path string, pairs ...string) (listed []string) {
		t.Helper()
		_, now := s.ask(t, "POST", path, modernRequest("1", "tools/list", "{}", ""), selecting("tools/list", "", pairs...))
		_, before := s.ask(t, "POST", path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, func(r *http.Request) {
			old.inside(r)
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		})
		all := make([][]string, 2)
		for i, text := range []string{now, before} {
			var got struct {
				Result struct{ Tools []struct{ Name string } }
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%s %v: %v: %s", path, pairs, err, text)
			}
			for _, tool := range got.Result.Tools {
				all[i] = append(all[i], tool.Name)
			}
		}
		if !slices.Equal(all[0], all[1]) {
			t.Errorf("%s %v: %v at 2026-07-28, %v before", path, pairs, all[0], all[1])
		}
		return all[0]
	}
	if got := names("/mcp"); len(got) != len(tools.Catalogue()) {
		t.Errorf("without a selection there are %d tools", len(got))
	}
	exec := []string{"exec", "exec_kill", "exec_wait", "run_code"}
	for path, pairs := range map[string][]string{
		"/mcp":               {"X-MCP-Toolsets", "exec"},
		"/mcp?toolsets=exec": nil,
		"/mcp?tools=exec":    {"X-MCP-Tools", "exec_wait, exec_kill,run_code"},
		"/mcp?exclude_tools=packages_install&exclude_tools=packages_status": {"X-MCP-Toolsets", "exec,packages"},
	} {
		if got := names(path, pairs...); !slices.Equal(got, exec) {
			t.Errorf("%s %v selects %v", path, pairs, got)
		}
	}
	for path, pairs := range map[string][]string{
		"/mcp": {"X-MCP-Readonly", "true"}, "/mcp?readonly=true": {"X-MCP-Readonly", "false"},
	} {
		got := names(path, pairs...)
		if !slices.Contains(got, "file_read") || slices.Contains(got, "exec") {
			t.Errorf("%s %v selects %v", path, pairs, got)
		}
	}
	for _, query := range []string{"toolsets=none", "tools=exe", "exclude_tools=exe", "readonly=maybe"} {
		response, text := s.ask(t, "POST", "/mcp?"+query, modernRequest("1", "tools/list", "{}", ""),
			modernHeader("tools/list", ""))
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s %s", query, response.Status, text)
		}
	}
	// A tool that was not selected cannot be called.
	_, text := s.ask(t, "POST", "/mcp?exclude_tools=sandbox_list", modernRequest(
		"1", "tools/call", "{}", `"name":"sandbox_list","arguments":{}`,
	), modernHeader("tools/call", "sandbox_list"))
	if !strings.Contains(text, `"error"`) {
		t.Errorf("an excluded tool was called: %s", text)
	}
}

// A request cannot have more tools than the server serves.
func TestSelectionWidensNothing(t *testing.T) {
	s := newSite(t, setup.Options{ReadOnly: true, Exclude: []string{"file_list"}})
	_, text := s.ask(t, "POST", "/mcp?toolsets=all&readonly=false", modernRequest("1", "tools/list", "{}", ""),
		modernHeader("tools/list", ""))
	if strings.Contains(text, `"exec"`) || strings.Contains(text, `"file_list"`) || !strings.Contains(text, `"file_read"`) {
		t.Errorf("got %s", text)
	}
}

// A client without eyes gets a text in place of each picture.
func TestWithoutPictures(t *testing.T) {
	for name, x := range map[string]struct {
		opts  setup.Options
		query string
		left  bool
	}{
		"as usual":       {left: true},
		"by the server":  {opts: setup.Options{NoPictures: true}},
		"by the request": {query: "?pictures=false"},
	} {
		s := newSite(t, x.opts)
		addFixtures(s.Server)
		_, text := s.ask(t, "POST", "/mcp"+x.query, modernRequest(
			"1", "tools/call", "{}", `"name":"test_multiple_content_types","arguments":{}`,
		), modernHeader("tools/call", "test_multiple_content_types"))
		if strings.Contains(text, fixturePicture) != x.left || strings.Contains(text, "a picture (image/png, ") == x.left {
			t.Errorf("%s: %s", name, text)
		}
	}
}
