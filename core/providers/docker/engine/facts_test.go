package engine

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

func TestProjectQuota(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	text := "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" +
		"23 22 8:2 / /var/lib/docker rw - xfs /dev/sda2 rw,attr2,prjquota\n" +
		"24 22 8:3 / /var/lib/docker/plain rw - xfs /dev/sda3 rw,attr2,noquota\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		"/var/lib/docker": true, "/var/lib/docker/a": true, "/var/lib/docker/plain": false, "/var/lib/dockerx": false,
		"/": false,
	} {
		if got := projectQuota(file, dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
	if projectQuota(file+"x", "/") {
		t.Error("a file that is not there has quotas")
	}
}

// The cache is for one version of one engine, and it expires.
func TestFactsAreCached(t *testing.T) {
	dir := t.TempDir()
	e := &Engine{At: Place{Host: "unix:///a"}, Version: "Docker/1"}
	want := Facts{Known: true, Version: "Docker/1", Arch: "amd64", CPU: true, Runtimes: []string{"runc"}}
	e.cache(dir, want)
	if diff := cmp.Diff(want, e.cached(dir)); diff != "" {
		t.Error(diff)
	}
	if got := (&Engine{At: e.At, Version: "Docker/2"}).cached(dir); got.Known {
		t.Errorf("of another version: %+v", got)
	}
	if got := (&Engine{At: Place{Host: "unix:///b"}, Version: "Docker/1"}).cached(dir); got.Known {
		t.Errorf("of another engine: %+v", got)
	}
	old := time.Now().Add(-factsAge - time.Minute)
	if err := os.Chtimes(e.cacheFile(dir), old, old); err != nil {
		t.Fatal(err)
	}
	if got := e.cached(dir); got.Known {
		t.Errorf("from long ago: %+v", got)
	}
}

// Concurrent calls of Learn return the same facts. This is for the race detector.
func TestFactsOfConcurrentCalls(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41") // without Server: a proxy before an engine may leave it out
		if strings.HasSuffix(r.URL.Path, "/info") {
			both.Done()
			both.Wait()
			_, _ = io.WriteString(w, `{"Architecture": "x86_64", "Runtimes": {"runc": {}}}`)
		}
	}))
	t.Cleanup(server.Close)
	s := Search{Host: "tcp://" + server.Listener.Addr().String(), LookupEnv: dockertest.Environment(nil)}
	e, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := e.Learn(t.Context(), ""); err != nil || e.Facts().Arch != "amd64" || e.Podman {
				t.Errorf("learned %+v, %v", e.Facts(), err)
			}
		})
	}
	wg.Wait()
}
