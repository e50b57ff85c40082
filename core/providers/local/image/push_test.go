package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// layerFile writes a layer with one file.
func layerFile(t *testing.T, name, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
	try(t, w.WriteHeader(header), second(w.Write([]byte(content))), w.Close())
	layer := filepath.Join(t.TempDir(), "layer")
	try(t, os.WriteFile(layer, b.Bytes(), 0o600))
	return layer
}

// isUpload reports whether a request sends the content of a blob.
func isUpload(r *http.Request) bool { return r.Method == http.MethodPatch }

// TestPush sends an image with a second layer to a registry with a password, twice, and pulls it from there.
func TestPush(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	ref := registry.push(t, image1(t, "lower content", "upper content"), "base:v1")
	if _, err := store.Pull(t.Context(), ref, image.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	var uploads atomic.Int32
	registry.before(func(w http.ResponseWriter, r *http.Request) bool {
		if isUpload(r) {
			uploads.Add(1)
		}
		return demand(w, r)
	})
	me := keys{Username: "me", Password: "secret"}
	over := layerFile(t, "over", "the changes")
	var most core.Progress
	push := func(keychain keys, mirrors ...string) (string, string, error) {
		opts := image.PushOptions{Keychain: keychain, Registries: core.Registries{
			Mirrors: map[string][]string{registry.host: mirrors},
		}}
		opts.Layers = []string{over}
		opts.Progress = func(p core.Progress) {
			if p.Done > most.Done {
				most = p
			}
		}
		return store.Push(t.Context(), ref, registry.host+"/team/app:1", opts)
	}
	_, _, err := push(keys{})
	wantKind(t, err, core.KindUnauthorized, "team/app:1")
	if hint := core.HintOf(err); !strings.Contains(hint, "docker login "+registry.host) {
		t.Errorf("the hint is %q", hint)
	}
	full, digest, err := push(me, nowhere)
	if err != nil || full != registry.host+"/team/app:1" || !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("%q, %q, %v", full, digest, err)
	}
	if n := uploads.Load(); n != 3 {
		t.Errorf("%d uploads of two layers and the configuration", n)
	}
	if most.Done == 0 || most.Done > most.Total || !strings.Contains(most.Step, "pushing") {
		t.Errorf("the progress was %+v", most)
	}
	_, again, err := push(me)
	if err != nil || again != digest || uploads.Load() != 3 {
		t.Errorf("again: %q instead of %q, %d uploads, %v", again, digest, uploads.Load(), err)
	}
	pulled, err := open(t, t.TempDir()).Pull(t.Context(), full+"@"+digest, image.PullOptions{Keychain: me})
	if err != nil {
		t.Fatal(err)
	}
	has(t, pulled, "upper content")
	has(t, pulled, "the changes")
	if left, err := store.Leftovers(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestPushFails has registries that break the connection, stall, refuse, or are not there.
func TestPushFails(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	ref := registry.push(t, image1(t, strings.Repeat("content ", 1000)), "base:v1")
	if _, err := store.Pull(t.Context(), ref, image.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	push := func(name string) error {
		_, _, err := store.Push(t.Context(), ref, name, image.PushOptions{Keychain: keys{}})
		return err
	}
	to := registry.host + "/app:1"
	var breaks atomic.Int32
	registry.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if isUpload(r) && breaks.Add(1) <= 2 {
			_, _ = r.Body.Read(make([]byte, 10))
			panic(http.ErrAbortHandler)
		}
		return false
	})
	if err := push(to); err != nil {
		t.Errorf("a connection that breaks sometimes: %v", err)
	}
	// The registry shares blobs between repositories.
	missing := func(hook func(http.ResponseWriter, *http.Request) bool) {
		registry.before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return hook(w, r)
		})
	}
	missing(func(_ http.ResponseWriter, r *http.Request) bool {
		if isUpload(r) {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	wantKind(t, push(to), core.KindUnavailable, "cannot be pushed")
	missing(func(_ http.ResponseWriter, r *http.Request) bool {
		if isUpload(r) {
			_, _ = io.Copy(io.Discard, r.Body) // the server sees the end of the connection only then
			<-r.Context().Done()
		}
		return false
	})
	wantKind(t, push(to), core.KindTimeout, "sent nothing")
	for status, kind := range map[int]core.Kind{
		http.StatusForbidden: core.KindUnauthorized, http.StatusMethodNotAllowed: core.KindUnsupported,
		http.StatusNotFound: core.KindNotFound, http.StatusRequestEntityTooLarge: core.KindExhausted,
		http.StatusTooManyRequests: core.KindExhausted,
	} {
		missing(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				w.WriteHeader(status)
			}
			return r.Method == http.MethodPost
		})
		wantKind(t, push(to), kind, to)
	}
	wantKind(t, push(nowhere+"/app:1"), core.KindUnavailable, "cannot be pushed")
	wantKind(t, push("UPPER"), core.KindUsage, "UPPER")
	wantKind(t, push("app:1"), core.KindUsage, "neither a registry nor an account")
	registry.before(func(http.ResponseWriter, *http.Request) bool { return false })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := store.Push(ctx, ref, to, image.PushOptions{Keychain: keys{}}); err == nil {
		t.Error("a canceled push succeeded")
	}
	_, _, err := store.Push(t.Context(), "none:1", to, image.PushOptions{Keychain: keys{}})
	wantKind(t, err, core.KindNotFound, "none:1")
}
