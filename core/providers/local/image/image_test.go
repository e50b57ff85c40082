package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// killsVariable is the number of kills in TestKilled: "200".
const killsVariable = "SB_TEST_KILLS"

// pullVariable makes this program a client that pulls "REF DIR" and ends.
const pullVariable = "SB_TEST_PULL"

func TestMain(m *testing.M) {
	if ref, dir, ok := strings.Cut(os.Getenv(pullVariable), " "); ok {
		store, err := image.Open(dir)
		if err == nil {
			_, err = store.Pull(context.Background(), ref, image.PullOptions{})
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// TestKilled kills clients at random moments of a pull. After each kill the store has only complete images.
func TestKilled(t *testing.T) {
	registry, dir := serve(t), t.TempDir()
	store := open(t, dir)
	contents := []string{strings.Repeat("old", 1<<20), strings.Repeat("new", 1<<20), "the last layer"}
	ref := registry.push(t, image1(t, contents...), "a:v1")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), pullVariable+"="+ref+" "+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	begin := time.Now()
	if err := client().Wait(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin)
	kills := 40
	if more, err := strconv.Atoi(os.Getenv(killsVariable)); err == nil {
		kills = more
	}
	for range kills {
		cmd := client()
		// This test varies the moment.
		select {
		case <-time.After(rand.N(whole)):
		case <-t.Context().Done():
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		list, err := store.List(t.Context())
		if err != nil || len(list) > 1 {
			t.Fatalf("the store has %d images: %v", len(list), err)
		}
		if len(list) == 1 {
			has(t, list[0], contents[2])
			if err := store.Remove(t.Context(), list[0].ID, unused); err != nil {
				t.Fatal(err)
			}
		}
	}
	pulled, err := store.Pull(t.Context(), ref, image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, pulled, contents[2])
	wantClean(t, store, dir)
}

// made returns an image with a layer for each content of /file.
func made(t testing.TB, arch string, contents ...string) v1.Image {
	t.Helper()
	img := empty.Image
	for _, content := range contents {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		head := tar.Header{Name: "file", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
		if err := w.WriteHeader(&head); err != nil {
			t.Fatal(err)
		}
		_, err := io.WriteString(w, content)
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		raw := b.Bytes()
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, l); err != nil {
			t.Fatal(err)
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Config = v1.Config{
		Entrypoint: []string{"/bin/sh"}, Cmd: []string{"-c", "true"}, Env: []string{"A=b"}, User: "1:2", WorkingDir: "/w",
		StopSignal: "SIGINT", ExposedPorts: map[string]struct{}{"80/tcp": {}, "53/udp": {}},
		Labels: map[string]string{"l": "v"},
	}
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

func image1(t testing.TB, contents ...string) v1.Image {
	t.Helper()
	return made(t, runtime.GOARCH, contents...)
}

// server is a registry, with a hook before each request; the hook reports whether it has answered.
type server struct {
	host     string
	requests atomic.Int64
	hook     atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

func serve(t testing.TB) *server {
	t.Helper()
	s := &server{}
	backend := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if hook := s.hook.Load(); hook != nil && (*hook)(w, r) {
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	s.host = strings.TrimPrefix(web.URL, "http://")
	return s
}

func (s *server) before(hook func(http.ResponseWriter, *http.Request) bool) { s.hook.Store(&hook) }

// push stores an image or index in the registry and returns its name there.
func (s *server) push(t testing.TB, what remote.Taggable, repository string) string {
	t.Helper()
	ref, err := name.ParseReference(s.host + "/" + repository)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Push(ref, what); err != nil {
		t.Fatal(err)
	}
	if closer, ok := remote.DefaultTransport.(*http.Transport); ok {
		closer.CloseIdleConnections()
	}
	return ref.Name()
}

func open(t testing.TB, dir string) *image.Store {
	t.Helper()
	store, err := image.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return image.Patient(store)
}

func has(t *testing.T, stored image.Image, content string) {
	t.Helper()
	raw, err := os.ReadFile(stored.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte(content)) || int64(len(raw)) != stored.Size {
		t.Errorf("the file system of %d bytes has no %q", stored.Size, content)
	}
}

func wantKind(t *testing.T, err error, kind core.Kind, texts ...string) {
	t.Helper()
	if err == nil || core.KindOf(err) != kind {
		t.Fatalf("the error is %v: %v", core.KindOf(err), err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not name %q: %v", text, err)
		}
	}
}

// TestPull pulls an image of two layers, and finds it by all of its names without the registry.
func TestPull(t *testing.T) {
	registry, store := serve(t), open(t, filepath.Join(t.TempDir(), "new", "images"))
	img := image1(t, "old content", "new content")
	ref := registry.push(t, img, "team/tool:v1")
	var steps []core.Progress
	collect := func(p core.Progress) { steps = append(steps, p) }
	pulled, err := store.Pull(t.Context(), ref, image.PullOptions{Progress: collect})
	if err != nil {
		t.Fatal(err)
	}
	has(t, pulled, "new content")
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if pulled.ID != digest.String() || len(pulled.Refs) != 1 || pulled.Refs[0] != ref {
		t.Errorf("%+v", pulled)
	}
	c := pulled.Config
	if c.Entrypoint[0] != "/bin/sh" || c.Cmd[1] != "true" || c.Env[0] != "A=b" || c.User != "1:2" ||
		c.WorkingDir != "/w" || c.StopSignal != "SIGINT" ||
		strings.Join(c.ExposedPorts, " ") != "53/udp 80/tcp" || c.Labels["l"] != "v" {
		t.Errorf("%+v", c)
	}
	if !complete(steps) {
		t.Errorf("the progress is %+v", steps)
	}
	asked := registry.requests.Load()
	for _, name := range []string{ref, pulled.ID, strings.TrimPrefix(pulled.ID, "sha256:")[:12]} {
		for _, policy := range []core.PullPolicy{"", core.PullMissing, core.PullNever} {
			if got, err := store.Pull(t.Context(), name, image.PullOptions{Policy: policy}); err != nil || got.ID != pulled.ID {
				t.Errorf("%s, %s: %v", name, policy, err)
			}
		}
	}
	if n := registry.requests.Load() - asked; n != 0 {
		t.Errorf("the registry was asked %d times for a stored image", n)
	}
	registry.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			t.Errorf("a stored image is downloaded: %s", r.URL)
		}
		return false
	})
	if _, err := store.Pull(t.Context(), ref, image.PullOptions{Policy: core.PullAlways}); err != nil {
		t.Error(err)
	}
}

// TestDigest pulls by a digest. A registry receives no request for a stored digest, whatever the policy.
func TestDigest(t *testing.T) {
	registry := serve(t)
	img := image1(t, "content")
	ref := registry.push(t, img, "team/tool:v1")
	ofImage, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}},
	})
	registry.push(t, index, "team/all:v1")
	ofIndex, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	tool, all := registry.host+"/team/tool@"+ofImage.String(), registry.host+"/team/all@"+ofIndex.String()
	for what, test := range map[string]struct{ first, pinned string }{
		"image":                   {tool, tool},
		"index":                   {all, all},
		"image of a tag":          {ref, tool},
		"image under another tag": {ref, registry.host + "/team/tool:v2@" + ofImage.String()},
	} {
		t.Run(what, func(t *testing.T) {
			store := open(t, t.TempDir())
			first, err := store.Pull(t.Context(), test.first, image.PullOptions{})
			if err != nil {
				t.Fatal(err)
			}
			before := registry.requests.Load()
			for _, policy := range core.PullPolicies() {
				got, err := store.Pull(t.Context(), test.pinned, image.PullOptions{Policy: core.PullPolicy(policy)})
				if err != nil || got.ID != first.ID || got.ID != ofImage.String() {
					t.Errorf("%s: %+v, %v", policy, got, err)
				}
			}
			if n := registry.requests.Load() - before; n != 0 {
				t.Errorf("%d requests for a stored digest", n)
			}
		})
	}
}

func complete(steps []core.Progress) bool {
	for _, s := range steps {
		if s.Total > 0 && s.Done == s.Total {
			return true
		}
	}
	return false
}

// TestPolicy moves a tag: only PullAlways sees it, and the image before it is pruned.
func TestPolicy(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	wantKind(t, second(store.Pull(t.Context(), registry.host+"/a:v", image.PullOptions{Policy: core.PullNever})),
		core.KindNotFound, "a:v")
	ref := registry.push(t, image1(t, "first"), "a:v")
	first, err := store.Pull(t.Context(), ref, image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	registry.push(t, image1(t, "second"), "a:v")
	if got, err := store.Pull(t.Context(), ref, image.PullOptions{}); err != nil || got.ID != first.ID {
		t.Errorf("%+v, %v", got, err)
	}
	moved, err := store.Pull(t.Context(), ref, image.PullOptions{Policy: core.PullAlways})
	if err != nil {
		t.Fatal(err)
	}
	has(t, moved, "second")
	list, err := store.List(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != moved.ID || list[1].Refs != nil {
		t.Errorf("%+v, %v", list, err)
	}
	left, err := store.Leftovers(t.Context())
	if err != nil || len(left) != 1 || left[filepath.Dir(first.Path)] != first.ID {
		t.Errorf("%+v, %v", left, err)
	}
	if err := store.Clear(filepath.Dir(first.Path), unused); err != nil {
		t.Error(err)
	}
	wantKind(t, store.Clear(filepath.Dir(moved.Path), unused), core.KindConflict)
	if err := store.Remove(t.Context(), ref, unused); err != nil {
		t.Fatal(err)
	}
	wantKind(t, store.Remove(t.Context(), ref, unused), core.KindNotFound)
	wantKind(t, second(store.Get(t.Context(), moved.ID)), core.KindNotFound)
	if _, err := os.Stat(moved.Path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file of a removed image remains")
	}
}

// unused lets each image be removed.
func unused(string) error { return nil }

func second[T any](_ T, err error) error { return err }

// TestPlatforms pulls from an index, and from images of other machines.
func TestPlatforms(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	other := "s390x"
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: made(t, other, "foreign"), Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: other},
		}},
		mutate.IndexAddendum{Add: image1(t, "ours"), Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
		}})
	pulled, err := store.Pull(t.Context(), registry.push(t, index, "multi:v1"), image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, pulled, "ours")
	foreign := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add:        made(t, other, "foreign"),
		Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: other}},
	})
	for _, what := range []remote.Taggable{foreign, made(t, other, "foreign")} {
		ref := registry.push(t, what, "foreign:v1")
		wantKind(t, second(store.Pull(t.Context(), ref, image.PullOptions{})), core.KindNotFound, "linux/"+runtime.GOARCH,
			"linux/s390x", ref)
	}
}

// keys are the credentials of a test.
type keys authn.AuthConfig

func (k keys) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(authn.AuthConfig(k)), nil
}

// TestAuthentication pulls from a registry that requires a password.
func TestAuthentication(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	ref := registry.push(t, image1(t, "secret"), "private:v1")
	registry.before(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "me" && password == "hunter2" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	for _, k := range []keys{{}, {Username: "me", Password: "wr0ng"}} {
		err := second(store.Pull(t.Context(), ref, image.PullOptions{Keychain: k}))
		wantKind(t, err, core.KindUnauthorized, ref)
		if strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	pulled, err := store.Pull(t.Context(), ref, image.PullOptions{Keychain: keys{Username: "me", Password: "hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	has(t, pulled, "secret")
	wantKind(t, second(store.Pull(t.Context(), ref, image.PullOptions{Policy: core.PullAlways, Keychain: keys{}})),
		core.KindUnauthorized)
}

// isBlob reports whether a request is for the content of a layer; the configuration has less than 2 KiB.
func isBlob(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
}

// TestFailures pulls from registries that misbehave. Each error has a kind, and nothing appears in the store.
func TestFailures(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 4096)
	for _, test := range []struct {
		name string
		hook func(http.ResponseWriter, *http.Request) bool
		kind core.Kind
	}{
		{"it lies about a digest", func(w http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				_, _ = io.WriteString(w, "something else")
			}
			return isBlob(r)
		}, core.KindUnavailable},
		{"it lies about the manifest", func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = io.WriteString(w, `{"schemaVersion":2}`)
			return true
		}, core.KindUsage},
		{"it sends without end", func(w http.ResponseWriter, r *http.Request) bool {
			for err := error(nil); isBlob(r) && err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
			return isBlob(r)
		}, core.KindUnavailable},
		{"it drops the connection", func(w http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				w.Header().Set("Content-Length", "100000")
				_, _ = w.Write(make([]byte, 1024))
				panic(http.ErrAbortHandler)
			}
			return false
		}, core.KindUnavailable},
		{"it stalls", func(w http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				w.Header().Set("Content-Length", "100000")
				_, _ = w.Write(make([]byte, 10))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			return isBlob(r)
		}, core.KindTimeout},
		{"it has nothing", func(w http.ResponseWriter, _ *http.Request) bool {
			http.NotFound(w, nil)
			return true
		}, core.KindNotFound},
		{"it has a limit", func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/manifests/") {
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			}
			return false
		}, core.KindExhausted},
	} {
		t.Run(test.name, func(t *testing.T) {
			registry, dir := serve(t), t.TempDir()
			store := open(t, dir)
			ref := registry.push(t, image1(t, content), "a:v1")
			registry.before(test.hook)
			wantKind(t, second(store.Pull(t.Context(), ref, image.PullOptions{})), test.kind, ref)
			if list, err := store.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("the store has %+v, %v", list, err)
			}
			registry.before(func(http.ResponseWriter, *http.Request) bool { return false })
			pulled, err := store.Pull(t.Context(), ref, image.PullOptions{})
			if err != nil {
				t.Fatal(err)
			}
			has(t, pulled, content)
			wantClean(t, store, dir)
		})
	}
	t.Run("there is none", func(t *testing.T) {
		_, err := open(t, t.TempDir()).Pull(t.Context(), "127.0.0.1:1/a", image.PullOptions{})
		wantKind(t, err, core.KindUnavailable)
	})
}

// wantClean checks that only images and known leftovers remain after a pull.
func wantClean(t *testing.T, store *image.Store, dir string) {
	t.Helper()
	left, err := store.Leftovers(t.Context())
	if err != nil {
		t.Error(err)
	}
	for path := range left {
		if err := store.Clear(path, unused); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "work")); len(left) != 0 {
		t.Errorf("%v remain", left)
	}
}

// TestRetry pulls from a registry that breaks each layer's connection once.
func TestRetry(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	ref := registry.push(t, image1(t, "one", "two", "three"), "a:v1")
	var broken sync.Map
	registry.before(func(w http.ResponseWriter, r *http.Request) bool {
		if _, again := broken.LoadOrStore(r.URL.Path, true); isBlob(r) && !again {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write(make([]byte, 10))
			panic(http.ErrAbortHandler)
		}
		return false
	})
	pulled, err := store.Pull(t.Context(), ref, image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, pulled, "three")
}

// TestTwoPulls pulls the same image many times at once: each layer is downloaded once.
func TestTwoPulls(t *testing.T) {
	registry, dir := serve(t), t.TempDir()
	ref := registry.push(t, image1(t, "one", "two"), "a:v1")
	var blobs atomic.Int64
	registry.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if isBlob(r) {
			blobs.Add(1)
		}
		return false
	})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := open(t, dir).Pull(t.Context(), ref, image.PullOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := blobs.Load(); n != 3 {
		t.Errorf("%d downloads of two layers and a configuration", n)
	}
}

// TestCanceled cancels a pull in the middle of a layer.
func TestCanceled(t *testing.T) {
	registry, dir := serve(t), t.TempDir()
	store := open(t, dir)
	ref := registry.push(t, image1(t, "one"), "a:v1")
	ctx, cancel := context.WithCancel(t.Context())
	registry.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if isBlob(r) {
			left, err := store.Leftovers(t.Context())
			if err != nil || len(left) != 0 {
				t.Errorf("left over while a pull works: %v, %v", left, err)
			}
			cancel()
			<-r.Context().Done()
		}
		return isBlob(r)
	})
	wantKind(t, second(store.Pull(ctx, ref, image.PullOptions{})), core.KindCanceled)
	wantClean(t, store, dir)
}

// TestRemains puts leftovers of a killed pull into the store. The store trusts none of them.
func TestRemains(t *testing.T) {
	registry, dir := serve(t), t.TempDir()
	store := open(t, dir)
	img := image1(t, "right content")
	ref := registry.push(t, img, "a:v1")
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	digest, _ := img.Digest()
	work := filepath.Join(dir, "work", digest.Hex)
	if err := os.MkdirAll(filepath.Join(work, "image"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{manifest.Layers[0].Digest.Hex, "image/rootfs.erofs", "image/image.json"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte("wrong"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pulled, err := store.Pull(t.Context(), ref, image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has(t, pulled, "right content")
	wantClean(t, store, dir)
	if err := os.Truncate(pulled.Path, 100); err != nil {
		t.Fatal(err)
	}
	wantKind(t, second(store.Get(t.Context(), ref)), core.KindInternal, "damaged")
	if list, err := store.List(t.Context()); err != nil || len(list) != 1 || list[0].Damage == nil {
		t.Errorf("the list is %+v, %v", list, err)
	}
	if pulled, err = store.Pull(t.Context(), ref, image.PullOptions{Policy: core.PullAlways}); err != nil {
		t.Fatal(err)
	}
	has(t, pulled, "right content")
}

// TestFiles gets images from files and directories.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	img := image1(t, "of a file")
	digest, _ := img.Digest()
	oci, err := layout.Write(filepath.Join(dir, "oci"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	v1 := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "v1"})
	if err := oci.AppendImage(img, v1); err != nil {
		t.Fatal(err)
	}
	tag, _ := name.NewTag("tool:v1")
	if err := tarball.WriteToFile(filepath.Join(dir, "docker.tar"), tag, img); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(dir, "oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(archive)
	if err := errors.Join(w.AddFS(os.DirFS(string(oci))), w.Close(), archive.Close()); err != nil {
		t.Fatal(err)
	}
	skopeo := filepath.Join(dir, "skopeo")
	blobs, _ := filepath.Glob(filepath.Join(string(oci), "blobs", "sha256", "*"))
	if err := os.Mkdir(skopeo, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		to := filepath.Base(blob)
		if to == digest.Hex {
			to = "manifest.json"
		}
		if err := os.Link(blob, filepath.Join(skopeo, to)); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []string{
		"oci:" + string(oci), "oci:" + string(oci) + ":v1", "oci-archive:" + archive.Name(), "dir:" + skopeo,
		"docker-archive:" + dir + "/docker.tar", "docker-archive:" + dir + "/docker.tar:tool:v1",
	} {
		store := open(t, t.TempDir())
		pulled, err := store.Pull(t.Context(), ref, image.PullOptions{})
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		has(t, pulled, "of a file")
		if !strings.HasPrefix(ref, "docker-") && pulled.ID != digest.String() {
			t.Errorf("%s has the id %s", ref, pulled.ID)
		}
		got, err := store.Pull(t.Context(), ref, image.PullOptions{Policy: core.PullNever})
		if err != nil || got.ID != pulled.ID {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for ref, kind := range map[string]core.Kind{
		"oci:" + string(oci) + ":v2": core.KindNotFound, "oci:" + skopeo: core.KindUsage, "oci:/nowhere": core.KindNotFound,
		"docker-archive:" + dir + "/docker.tar:tool:v2": core.KindUsage, "oci-archive:" + dir: core.KindUsage,
		"dir:" + string(oci): core.KindUsage, "oci:": core.KindUsage, "Upper:v1": core.KindUsage,
		"docker-archive:/dev/null": core.KindUsage,
	} {
		t.Run(ref, func(t *testing.T) {
			wantKind(t, second(open(t, t.TempDir()).Pull(t.Context(), ref, image.PullOptions{})), kind)
		})
	}
	// A blob with another digest than its name.
	layers, _ := img.Layers()
	blob, _ := layers[0].Digest()
	if err := os.WriteFile(filepath.Join(string(oci), "blobs", "sha256", blob.Hex), []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second(open(t, t.TempDir()).Pull(t.Context(), "oci:"+string(oci), image.PullOptions{})); err == nil {
		t.Error("a damaged blob is accepted")
	}
}

// TestHostile pulls an image that leads out of its root.
func TestHostile(t *testing.T) {
	registry, dir := serve(t), t.TempDir()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	head := tar.Header{Name: "../../escaped", Typeflag: tar.TypeReg}
	if err := errors.Join(w.WriteHeader(&head), w.Close()); err != nil {
		t.Fatal(err)
	}
	raw := b.Bytes()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(image1(t, "a"), l)
	if err != nil {
		t.Fatal(err)
	}
	store := open(t, dir)
	wantKind(t, second(store.Pull(t.Context(), registry.push(t, img, "bad:v1"), image.PullOptions{})), core.KindUsage,
		"../../escaped", "bad:v1")
	wantClean(t, store, dir)
}

// An image whose variables or arguments no program can get is refused when it is pulled, not at each command.
func TestNULInConfiguration(t *testing.T) {
	registry, dir := serve(t), t.TempDir()
	store := open(t, dir)
	for name, config := range map[string]v1.Config{
		"env": {Env: []string{"A=b\x00c"}}, "cmd": {Cmd: []string{"true", "\x00"}}, "user": {User: "root\x00"},
	} {
		img, err := mutate.Config(image1(t, "a"), config)
		if err != nil {
			t.Fatal(err)
		}
		ref := registry.push(t, img, name+":v1")
		wantKind(t, second(store.Pull(t.Context(), ref, image.PullOptions{})), core.KindUsage, "NUL", name+":v1")
	}
	wantClean(t, store, dir)
}
