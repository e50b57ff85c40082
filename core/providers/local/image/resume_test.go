package image_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// dropping serves blobs with http ranges, and drops each connection after a number of bytes of a layer.
type dropping struct {
	// after is the number of bytes; lie, unless nil, changes a part that follows an offset.
	after int
	lie   func(w http.ResponseWriter, blob []byte, from int) []byte

	mu sync.Mutex
	// whole and parts count the requests for whole layers and for their rest, sent the bytes.
	whole, parts, sent int
}

// hook returns the hook of a registry with an image's layers.
func (d *dropping) hook(blobs map[string][]byte) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		blob, ok := blobs[filepath.Base(r.URL.Path)]
		if !ok || r.Method != http.MethodGet {
			return false
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		from, status := 0, http.StatusOK
		rest := blob
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
			d.parts++
			status = http.StatusPartialContent
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(blob)-1, len(blob)))
			rest = blob[from:]
			if d.lie != nil {
				rest = d.lie(w, blob, from)
			}
		} else {
			d.whole++
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(rest)))
		w.WriteHeader(status)
		some := rest[:min(d.after, len(rest))]
		d.sent += len(some)
		_, _ = w.Write(some)
		if len(some) < len(rest) {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		return true
	}
}

// bigImage returns an image with a layer of about 100 KB, and the layer by its digest.
func bigImage(t *testing.T, registry *server) (ref string, blobs map[string][]byte, length int) {
	t.Helper()
	var content strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&content, "%x\n", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	img := image1(t, content.String())
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	return registry.push(t, img, "big:v1"), map[string][]byte{digest.String(): blob}, len(blob)
}

// TestResume pulls a layer over connections that break. Where the registry has ranges, no byte is sent twice.
func TestResume(t *testing.T) {
	registry := serve(t)
	ref, blobs, length := bigImage(t, registry)
	t.Run("drops", func(t *testing.T) {
		d := &dropping{after: length/20 + 1}
		registry.before(d.hook(blobs))
		if _, err := open(t, t.TempDir()).Pull(t.Context(), ref, image.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		if d.whole != 1 || d.parts != 19 || d.sent != length {
			t.Errorf("%d whole requests, %d for parts, %d of %d bytes", d.whole, d.parts, d.sent, length)
		}
	})
	t.Run("redirected", func(t *testing.T) {
		d := &dropping{after: length/4 + 1}
		elsewhere := serve(t)
		elsewhere.before(d.hook(blobs))
		registry.before(func(w http.ResponseWriter, r *http.Request) bool {
			_, ok := blobs[filepath.Base(r.URL.Path)]
			if ok {
				http.Redirect(w, r, "http://"+elsewhere.host+"/data/"+filepath.Base(r.URL.Path), http.StatusTemporaryRedirect)
			}
			return ok
		})
		if _, err := open(t, t.TempDir()).Pull(t.Context(), ref, image.PullOptions{}); err != nil || d.sent != length {
			t.Errorf("%d of %d bytes: %v", d.sent, length, err)
		}
	})
	t.Run("another part", func(t *testing.T) {
		d := &dropping{after: length - 1, lie: func(w http.ResponseWriter, blob []byte, _ int) []byte {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(blob)-1, len(blob)))
			return blob
		}}
		registry.before(d.hook(blobs))
		wantKind(t, second(open(t, t.TempDir()).Pull(t.Context(), ref, image.PullOptions{})), core.KindUnavailable, ref)
	})
	lie := func(_ http.ResponseWriter, blob []byte, from int) []byte { return make([]byte, len(blob)-from) }
	t.Run("lies once", func(t *testing.T) {
		d := &dropping{after: length / 2, lie: lie}
		hook := d.hook(blobs)
		registry.before(func(w http.ResponseWriter, r *http.Request) bool {
			d.mu.Lock()
			lied := d.parts == 2
			d.mu.Unlock()
			return !lied && hook(w, r)
		})
		dir := t.TempDir()
		if _, err := open(t, dir).Pull(t.Context(), ref, image.PullOptions{}); err != nil || d.whole != 1 {
			t.Errorf("%d whole requests: %v", d.whole, err)
		}
		wantClean(t, open(t, dir), dir)
	})
	t.Run("lies always", func(t *testing.T) {
		d := &dropping{after: length * 3 / 4, lie: lie}
		registry.before(d.hook(blobs))
		err := second(open(t, t.TempDir()).Pull(t.Context(), ref, image.PullOptions{}))
		wantKind(t, err, core.KindUnavailable, ref, "3 attempts")
		if d.whole != 3 || d.parts != 3 {
			t.Errorf("%d whole requests, %d for parts", d.whole, d.parts)
		}
	})
	t.Run("a later pull", func(t *testing.T) {
		d := &dropping{after: length / 2}
		hook, dir := d.hook(blobs), t.TempDir()
		registry.before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") != "" {
				panic(http.ErrAbortHandler) // the network is gone
			}
			return hook(w, r)
		})
		wantKind(t, second(open(t, dir).Pull(t.Context(), ref, image.PullOptions{})), core.KindUnavailable, ref)
		registry.before(hook)
		d.after = length
		_, err := open(t, dir).Pull(t.Context(), ref, image.PullOptions{})
		if err != nil || d.sent != length || d.parts != 1 {
			t.Errorf("%d of %d bytes, %d parts: %v", d.sent, length, d.parts, err)
		}
		if parts, _ := filepath.Glob(filepath.Join(dir, "work", "*", "*")); len(parts) > 0 {
			t.Errorf("left: %v", parts)
		}
	})
}
