//go:build linux

package local

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/seed-0724f904/sb/core"
)

// Snapshots of the same image share its layer at a registry.
func TestSnapshotIsPushed(t *testing.T) {
	backend := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var uploads atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			uploads.Add(1)
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	host := strings.TrimPrefix(web.URL, "http://")
	p := opened(t, opener(t, nil))
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = busyboxImage(t, nil) })
	for _, name := range []string{"one", "two"} {
		if out := output(t, p, sb.ID, "echo "+name+" > /root/file"); out != "" {
			t.Fatal(out)
		}
		if _, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	// The second push sends its own layer and configuration only.
	for i, name := range []string{"one", "two"} {
		pushed, err := p.PushImage(t.Context(), name, host+"/me/"+name+":1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := []int32{3, 5}[i]; uploads.Load() != want {
			t.Errorf("%s: %d uploads, want %d", name, uploads.Load(), want)
		}
		from := launchFrom(t, p, func(spec *core.Spec) { spec.Image = pushed.Name + "@" + pushed.Digest })
		if out := output(t, p, from.ID, "cat /root/file; echo $FROM_IMAGE"); out != name+"\nyes\n" {
			t.Errorf("from the registry: %q", out)
		}
	}
}
