//go:build linux

package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-0724f904/sb/core/providertest"
)

// anotherUser runs programs as a different user of this machine.
type anotherUser struct {
	t *testing.T
	// sb is a copy of the program that this user can start, dir a directory of this user's own.
	sb, dir string
}

// overflowID is the user id that Linux systems keep for a user without files (user_namespaces(7), overflowuid).
const overflowID = 65534

func newUser(t *testing.T, h *home) *anotherUser {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir, err := os.MkdirTemp("/tmp", "sb-other-") //nolint:usetesting // the other user cannot enter the test's directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	u := &anotherUser{t: t, sb: filepath.Join(dir, "sb"), dir: filepath.Join(dir, "home")}
	u.bring(h, "sb")
	for _, step := range []error{os.Chmod(dir, 0o755), os.Mkdir(u.dir, 0o700), os.Chown(u.dir, overflowID, overflowID)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	return u
}

// bring copies a program to where the user can start it.
func (u *anotherUser) bring(h *home, program string) {
	u.t.Helper()
	from, err := os.Open(filepath.Join(h.bin, program))
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(filepath.Join(filepath.Dir(u.sb), program), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		u.t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		u.t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		u.t.Fatal(err)
	}
}

// run runs a program of the system without the test's environment and returns its output. The test's own PATH may have
// programs that other users cannot execute.
func (u *anotherUser) run(env []string, argv ...string) (out string, ok bool) {
	u.t.Helper()
	return u.runIn(u.t.Context(), env, argv...)
}

// runIn is run with a context.
func (u *anotherUser) runIn(ctx context.Context, env []string, argv ...string) (out string, ok bool) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/env", argv...)
	cmd.Dir = u.dir
	cmd.Env = append([]string{"HOME=" + u.dir, "PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=/tmp"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: overflowID, Gid: overflowID}}
	text, err := cmd.CombinedOutput()
	return string(text), err == nil
}

// cannotRead fails the test if the user can read one of the files, even in a home that is open to all.
func (u *anotherUser) cannotRead(file string) {
	u.t.Helper()
	for dir := filepath.Dir(file); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			u.t.Fatal(err)
		}
	}
	if out, ok := u.run(nil, "stat", file); !ok {
		u.t.Fatalf("the test's directories are closed: %s", out)
	}
	if out, ok := u.run(nil, "cat", file); ok || !strings.Contains(out, "Permission denied") {
		u.t.Errorf("another user reads %s: %q", file, out)
	}
}

// request returns the status code that an HTTP client of the user gets from "sb mcp".
func (u *anotherUser) request(url string) string {
	u.t.Helper()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const get = `import sys, urllib.request, urllib.error
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json",
    "Accept": "application/json, text/event-stream"})
try:
    print(urllib.request.urlopen(request, timeout=60).status)
except urllib.error.HTTPError as refused:
    print(refused.code)`
	out, ok := u.run(nil, "python3", "-c", get, url+"/mcp", list)
	if !ok {
		u.t.Fatal(out)
	}
	return strings.TrimSpace(out)
}

// A second user of the machine reaches the loopback port of "sb mcp", but gets no content.
func TestMCPRefusesAnotherUser(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := newUser(t, h)
	url, _ := h.listen("--transport", "streamable-http")
	if got := u.request(url); got != "401" {
		t.Errorf("without the key the server answers %s", got)
	}
	key := filepath.Join(h.dir, "state", "sb", "mcp.key")
	u.cannotRead(key)
	open, _ := h.listen("--transport", "streamable-http", "--no-auth")
	if got := u.request(open); got == "401" {
		t.Errorf("the request is refused without a reason: with --no-auth the server answers %s", got)
	}
}

// The port of "sb modal serve" is protected in the same way.
func TestModalServeRefusesAnotherUser(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := newUser(t, h)
	file := filepath.Join(h.dir, "config", "modal.env")
	server := exec.Command(filepath.Join(h.bin, "sb"), "modal", "serve", "--env-file", file)
	server.Env = h.env
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		if err := providertest.Receive(t, ended); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	url := make(chan string, 1)
	go func() {
		text := make([]byte, 256)
		n, _ := out.Read(text)
		url <- strings.TrimSpace(string(text[:n]))
		_, _ = io.Copy(io.Discard, out)
		ended <- server.Wait()
	}()
	at := []string{"MODAL_SERVER_URL=" + providertest.Receive(t, url)}
	for what, token := range map[string][]string{
		"no token": nil, "another token": {"MODAL_TOKEN_ID=ak-any", "MODAL_TOKEN_SECRET=as-any"},
	} {
		if out, ok := u.run(append(at, token...), u.sb, "volume", "create", "--provider", "modal", "kept"); ok {
			t.Errorf("with %s another user gets %q", what, out)
		}
	}
	u.cannotRead(file)
	token := []string{}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		token = append(token, strings.ReplaceAll(line, "'", ""))
	}
	if out, ok := u.run(token, u.sb, "volume", "create", "--provider", "modal", "kept"); !ok {
		t.Errorf("the user is refused without a reason: with the token %q", out)
	}
}
