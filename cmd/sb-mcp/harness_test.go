package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// patience is the longest wait of these stories, unless stated otherwise.
const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(programtest.With(m, "...").Run()) }

// home is a user of sb with separate directories. Their sandboxes end with the test.
type home struct {
	t   testing.TB
	dir string
	bin string
	env []string
}

func newHome(t testing.TB) *home {
	t.Helper()
	dir, err := os.MkdirTemp("", "sb-") //nolint:usetesting // a short path, for the sockets below it
	if err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, dir: dir, bin: programtest.Dir()}
	for _, name := range []string{"home", "state", "run", "config", "cache"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(os.Environ(), "HOME="+dir+"/home", "XDG_STATE_HOME="+dir+"/state", "XDG_RUNTIME_DIR="+dir+"/run",
		"XDG_CONFIG_HOME="+dir+"/config", "XDG_CACHE_HOME="+dir+"/cache", "SB_PROVIDER=local", "SB_LOCAL_SPARES=0")
	t.Cleanup(func() {
		h.sb("terminate", "--all", "--yes")
		_ = os.RemoveAll(dir)
	})
	return h
}

// sb runs a command and returns its output.
func (h *home) sb(arguments ...string) string {
	cmd := exec.Command(filepath.Join(h.bin, "sb"), arguments...)
	cmd.Env = h.env
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// served is a running "sb mcp".
type served struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr *lockedBuffer
	wait   func() error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (h *home) serve(arguments ...string) *served {
	h.t.Helper()
	return h.start(append([]string{"mcp"}, arguments...)...)
}

// start starts a server by a command of sb.
func (h *home) start(command ...string) *served {
	h.t.Helper()
	s := &served{cmd: exec.Command(filepath.Join(h.bin, "sb"), command...), stderr: &lockedBuffer{}}
	s.cmd.Env, s.cmd.Stderr = h.env, s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		h.t.Fatal(err)
	}
	if s.out, err = s.cmd.StdoutPipe(); err != nil {
		h.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	s.wait = sync.OnceValue(s.cmd.Wait)
	h.t.Cleanup(func() {
		if h.t.Failed() { // the log may show the reason
			_ = s.cmd.Process.Signal(syscall.SIGQUIT)
			_ = s.wait()
			h.t.Logf("the server's log:\n%s", s.stderr)
		}
		_ = s.in.Close()
		ended := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
		defer ended.Stop()
		_ = s.wait()
	})
	return s
}

// listen starts a server over HTTP on a free port and returns its URL without a path.
func (h *home) listen(arguments ...string) (url string, s *served) {
	h.t.Helper()
	s = h.serve(append([]string{"--port", "0"}, arguments...)...)
	return h.urlOf(s), s
}

// urlOf waits until a server listens and returns its URL without a path.
func (h *home) urlOf(s *served) string {
	h.t.Helper()
	h.t.Cleanup(func() { _ = s.cmd.Process.Signal(syscall.SIGTERM) })
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		for line := range strings.Lines(s.stderr.String()) {
			if address, found := strings.CutPrefix(strings.TrimSpace(line), "listening on "); found {
				return strings.TrimSuffix(strings.TrimSuffix(address, "/mcp"), "/sse")
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Fatalf("it does not listen: %s", s.stderr)
	return ""
}

// assistant is a client of the official SDK.
type assistant struct {
	t       testing.TB
	session *sdk.ClientSession

	mu       sync.Mutex
	progress []string
}

func connect(t testing.TB, over sdk.Transport) *assistant {
	t.Helper()
	a := &assistant{t: t}
	client := sdk.NewClient(&sdk.Implementation{Name: "story", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, request *sdk.ProgressNotificationClientRequest) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.progress = append(a.progress, request.Params.Message)
		},
	})
	session, err := client.Connect(context.Background(), over, nil) // the SSE stream ends with the context
	if err != nil {
		t.Fatal(err)
	}
	a.session = session
	t.Cleanup(func() { _ = session.Close() })
	return a
}

// stdio starts a server and returns a client connected over stdio.
func (h *home) stdio(arguments ...string) (*assistant, *served) {
	h.t.Helper()
	s := h.serve(arguments...)
	return connect(h.t, &sdk.IOTransport{Reader: s.out, Writer: s.in}), s
}

type args map[string]any

// try calls a tool. The record in _meta of a tool without structured content takes its place.
func (a *assistant) try(ctx context.Context, tool string, arguments args) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken(tool)
	result, err := a.session.CallTool(ctx, params)
	if err == nil && result.StructuredContent == nil {
		result.StructuredContent = result.Meta[tools.RecordKey]
	}
	return result, err
}

// call calls a tool, fails the test on an error, and returns the output.
func (a *assistant) call(tool string, arguments args) map[string]any {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	result, err := a.try(ctx, tool, arguments)
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	if result.IsError {
		a.t.Fatalf("%s failed: %s", tool, textOf(result))
	}
	structured, ok := result.StructuredContent.(map[string]any)
	if !ok {
		a.t.Fatalf("%s has no structured content", tool)
	}
	return structured
}

func textOf(result *sdk.CallToolResult) string {
	var parts []string
	for _, content := range result.Content {
		if text, ok := content.(*sdk.TextContent); ok {
			parts = append(parts, text.Text)
		}
	}
	return strings.Join(parts, "\n")
}

func (a *assistant) launch(arguments args) string {
	a.t.Helper()
	id, _ := a.call("sandbox_launch", arguments)["id"].(string)
	return id
}

func (a *assistant) read(uri string) *sdk.ResourceContents {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := a.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		a.t.Fatalf("%s: %v", uri, err)
	}
	return result.Contents[0]
}

// line reads one message of a server, without a client library.
func line(t testing.TB, r *bufio.Reader) map[string]any {
	t.Helper()
	text, err := r.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the server said no more: %v", err)
	}
	var message map[string]any
	if err := json.Unmarshal(text, &message); err != nil || message["jsonrpc"] != "2.0" {
		t.Fatalf("stdout has something that is no protocol: %q", text)
	}
	return message
}

// answer reads messages up to the answer to a request.
func answer(t testing.TB, r *bufio.Reader, id int) {
	t.Helper()
	for {
		if message := line(t, r); message["id"] == float64(id) {
			return
		}
	}
}

func pngConfig(data []byte) (image.Config, error) { return png.DecodeConfig(bytes.NewReader(data)) }
