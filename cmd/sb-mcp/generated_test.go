//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0724f904/sb/core/programtest"
)

// A public generator makes a client of the OpenAPI document, and that client can use the server.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	modules := programtest.NodeModules(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	dir := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil { // the client imports its runtime
		t.Fatal(err)
	}
	file := filepath.Join(dir, "client.ts")
	document, err := filepath.Abs(filepath.Join("..", "..", "docs", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := programtest.Node(
		ctx, modules, filepath.Join(modules, "oazapfts", "dist", "cli.js"), document, file,
	).CombinedOutput(); err != nil {
		t.Fatalf("the generator: %v: %s", err, out)
	}
	h := newHome(t)
	url := h.urlOf(h.start("serve", "--port", "0"))
	key, err := os.ReadFile(filepath.Join(h.dir, "state", "sb", "mcp.key"))
	if err != nil {
		t.Fatal(err)
	}
	story, err := filepath.Abs(filepath.Join("..", "..", "mcp", "testdata", "generated.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := programtest.Node(ctx, modules, story, file, url)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(key), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	type step struct {
		Name   string
		Status int
		Data   any
	}
	steps := map[string]step{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var s step
		if err := decoder.Decode(&s); err != nil {
			t.Fatal(err)
		}
		steps[s.Name] = s
	}
	field := func(name, key string) any {
		object, _ := steps[name].Data.(map[string]any)
		return object[key]
	}
	for name, status := range map[string]int{
		"launch": 201, "again": 201, "write": 204, "exec": 200, "wait": 200, "read": 206, "list": 200, "pause": 200,
		"resume": 200, "terminate": 204, "gone": 404,
	} {
		if steps[name].Status != status {
			t.Errorf("%s: %+v, want %d", name, steps[name], status)
		}
	}
	if field("launch", "id") == nil || field("again", "id") != field("launch", "id") {
		t.Errorf("launched twice: %v and %v", steps["launch"], steps["again"])
	}
	if field("exec", "stdout") != "42\n" || field("wait", "stdout") != "42\n" || steps["read"].Data != "print" ||
		field("pause", "state") != "paused" || field("gone", "kind") != "not_found" {
		t.Errorf("the responses: %s", out)
	}
}
