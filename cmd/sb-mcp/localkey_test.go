package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server on loopback answers only the programs with the key from "sb mcp install". The key survives a restart of the
// server.
func TestInstalledClientHasTheLocalKey(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for range 2 {
		url, _ := h.listen("--transport", "streamable-http")
		if out := h.sb("mcp", "install", "--client", "cursor", "--url", url+"/mcp"); strings.Contains(out, "sb_local_") {
			t.Errorf("the key is shown: %s", out)
		}
		file := filepath.Join(h.dir, "home", ".cursor", "mcp.json")
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Servers map[string]struct {
				URL     string            `json:"url"`
				Headers map[string]string `json:"headers"`
			} `json:"mcpServers"`
		}
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		entry := config.Servers["sb"]
		for _, test := range []struct {
			key  string
			want int
		}{{"", http.StatusUnauthorized}, {entry.Headers["Authorization"], http.StatusOK}} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, entry.URL, strings.NewReader(
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, text/event-stream")
			if test.key != "" {
				request.Header.Set("Authorization", test.key)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.want {
				t.Errorf("with key %t: %s", test.key != "", response.Status)
			}
		}
	}
}
