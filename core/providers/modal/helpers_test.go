//go:build linux

package modal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/local"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverVariable); dir != "" {
		os.Exit(serveModal(dir))
	}
	// The SDK fetches its token in a separate goroutine, for 15 s at most. It has no way to stop the fetch.
	token := goleak.IgnoreAnyFunction("github.com/modal-labs/modal-client/go.(*authTokenManager).FetchToken")
	goleak.VerifyTestMain(programtest.With(m, "sb-runtime", "sb-guest"), token)
}

// Planted credentials, which must not be in any output or file.
const (
	tokenID     = "ak-planted-id"
	tokenSecret = "as-planted-token-secret"
)

// rig is a server whose sandboxes run on this machine, and the settings of its clients.
type rig struct {
	server  *modaltest.Server
	faults  *modaltest.Faults
	backend core.Provider
	opts    modal.Options
}

// newRig starts a server and points Modal's environment variables at it.
func newRig(tb testing.TB, change func(*modaltest.Options)) *rig {
	tb.Helper()
	dir := tb.TempDir()
	backend, err := newBackend(dir)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{
		faults: &modaltest.Faults{}, backend: backend,
		opts: modal.Options{CacheDir: filepath.Join(dir, "modal-cache"), StateDir: filepath.Join(dir, "modal-state")},
	}
	bucket := filepath.Join(dir, "bucket")
	if err := os.MkdirAll(filepath.Join(bucket, "p"), 0o755); err != nil {
		tb.Fatal(err)
	}
	options := modaltest.Options{
		Backend: backend, Buckets: map[string]string{"b": bucket}, Dir: dir,
		Guest: filepath.Join(programtest.Dir(), "sb-guest"), Tokens: map[string]string{tokenID: tokenSecret},
		Faults: r.faults,
	}
	if change != nil {
		change(&options)
	}
	if r.server, err = modaltest.Start(options); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.server.Close(); err != nil {
			tb.Errorf("closing the server: %v", err)
		}
		if left, err := backend.List(tb.Context()); err == nil && len(left) > 0 {
			tb.Errorf("sandboxes of the backend were left behind: %+v", left)
		}
		_ = backend.Close()
	})
	tb.Setenv("HOME", dir)
	tb.Setenv("MODAL_CONFIG_PATH", filepath.Join(dir, "modal.toml"))
	tb.Setenv("MODAL_SERVER_URL", r.server.URL())
	tb.Setenv("MODAL_TOKEN_ID", tokenID)
	tb.Setenv("MODAL_TOKEN_SECRET", tokenSecret)
	return r
}

// newBackend creates the provider that runs a server's sandboxes.
func newBackend(dir string) (core.Provider, error) {
	return local.New(local.Options{
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		Runtime: filepath.Join(programtest.Dir(), "sb-runtime"), FreezeAfter: time.Second, LogLimit: core.MiB,
		HostDirs: []string{dir}, HostOnly: true,
	})
}

// serveModal runs this program as a server. It prints its address and ends with its input.
func serveModal(dir string) int {
	backend, err := newBackend(dir)
	if err == nil {
		defer func() { _ = backend.Close() }()
		var server *modaltest.Server
		if server, err = modaltest.Start(modaltest.Options{Backend: backend, Dir: dir}); err == nil {
			fmt.Println(server.URL())
			_, _ = io.Copy(io.Discard, os.Stdin)
			err = server.Close()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// supervisor returns the process that supervises the backend's only sandbox.
func (r *rig) supervisor(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(
		filepath.Join(filepath.Dir(r.opts.StateDir), "state", "local", "sandboxes", "*", "state.json"),
	)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Content struct {
			PID int `json:"pid"`
		} `json:"content"`
	}
	if err := json.Unmarshal(text, &file); err != nil || file.Content.PID == 0 {
		t.Fatalf("%s: %v", text, err)
	}
	return file.Content.PID
}

// open returns a provider like that of another process. It shares the cache in r.opts.
func (r *rig) open(testing.TB) core.Provider { return modal.New(r.opts) }

// filesWith lists the files below a directory that contain a text.
func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
