//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core/programtest"
)

// The TypeScript SDK starts servers with HOME, PATH and a few other variables. The user's shell has more, but it
// reaches what an assistant launched. A prune from another home leaves it alone.
func TestSandboxOfATypeScriptClient(t *testing.T) {
	t.Parallel()
	modules := programtest.NodeModules(t)
	h := newHome(t)
	shell := []string{
		"HOME=" + h.dir + "/home", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "XDG_RUNTIME_DIR=" + h.dir + "/run",
	}
	h.env = shell
	if out := h.sb("config", "set", "local.spares", "0"); out != "" {
		t.Log(out)
	}
	calls, err := json.Marshal([]map[string]any{
		{"name": "sandbox_launch", "arguments": args{"name": "dev"}},
		{"name": "exec", "arguments": args{"sandbox": "dev", "command": "echo kept > /root/file; cat /root/file"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := filepath.Abs(filepath.Join("..", "..", "mcp", "testdata", "client.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := programtest.Node(ctx, modules, client, modules, filepath.Join(h.bin, "sb"), "mcp")
	var stderr bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stderr = append(cmd.Env, shell...), h.dir, bytes.NewReader(calls), &stderr
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"exit_code":0`) {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	if out := h.sb("exec", "mcp-dev", "--", "cat", "/root/file"); out != "kept\n" {
		t.Errorf("from the shell: %q", out)
	}
	elsewhere := exec.CommandContext(ctx, filepath.Join(h.bin, "sb"), "prune", "--yes")
	elsewhere.Env = slices.Concat(shell, []string{"HOME=" + t.TempDir()})
	if out, err := elsewhere.CombinedOutput(); err != nil {
		t.Errorf("a prune from another home: %v, %s", err, out)
	}
	if out := h.sb("exec", "mcp-dev", "--", "cat", "/root/file"); out != "kept\n" {
		t.Errorf("after the prune: %q", out)
	}
	if out := h.sb("terminate", "mcp-dev") + h.sb("ls", "--json"); !strings.HasSuffix(out, "\n[]\n") {
		t.Errorf("after the end: %s", out)
	}
	if out := h.sb("prune", "--json"); !strings.Contains(out, `"leftovers": []`) {
		t.Errorf("left over: %s", out)
	}
}
