package image_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// nowhere is an address where no registry is.
const nowhere = "127.0.0.1:1"

// TestMirrors pulls from mirrors, and from the registry itself where they fail.
func TestMirrors(t *testing.T) {
	content := strings.Repeat("mirrored content ", 1000)
	origin, mirror := serve(t), serve(t)
	img := image1(t, content)
	ref := origin.push(t, img, "team/tool:v1")
	mirror.push(t, img, "team/tool:v1")
	mirror.push(t, img, "cache/team/tool:v1")
	mirrors := func(of string, list ...string) image.PullOptions {
		return image.PullOptions{
			Registries: core.Registries{Mirrors: map[string][]string{of: list}},
			Keychain:   keys{},
		}
	}
	pulls := func(t *testing.T, ref string, opts image.PullOptions) image.Image {
		t.Helper()
		pulled, err := open(t, t.TempDir()).Pull(t.Context(), ref, opts)
		if err != nil {
			t.Fatal(err)
		}
		has(t, pulled, "mirrored content")
		return pulled
	}
	t.Run("mirror only", func(t *testing.T) {
		const ref = "registry.example/team/tool:v1"
		for _, list := range [][]string{{mirror.host}, {nowhere, mirror.host}, {mirror.host + "/cache"}} {
			if pulled := pulls(t, ref, mirrors("registry.example", list...)); pulled.Refs[0] != ref {
				t.Errorf("it is called %v", pulled.Refs)
			}
		}
	})
	t.Run("mirror fails", func(t *testing.T) {
		for _, list := range [][]string{{nowhere}, {mirror.host + "/nothing"}, {nowhere, nowhere}} {
			pulls(t, ref, mirrors(origin.host, list...))
		}
	})
	t.Run("mirror closes the connection", func(t *testing.T) {
		mirror.before(func(w http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				w.Header().Set("Content-Length", "100000")
				_, _ = w.Write(make([]byte, 1024))
				panic(http.ErrAbortHandler)
			}
			return false
		})
		pulls(t, ref, mirrors(origin.host, mirror.host))
	})
	t.Run("mirror lies", func(t *testing.T) {
		mirror.before(func(w http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				_, _ = io.WriteString(w, "something else")
			}
			return isBlob(r)
		})
		pulls(t, ref, mirrors(origin.host, mirror.host))
	})
	t.Run("mirror stalls", func(t *testing.T) {
		mirror.before(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
		pulls(t, ref, mirrors(origin.host, mirror.host))
	})
	t.Run("all fail", func(t *testing.T) {
		err := second(open(t, t.TempDir()).Pull(t.Context(), nowhere+"/a:v1", mirrors(nowhere, "localhost:1")))
		wantKind(t, err, core.KindUnavailable, nowhere+"/a:v1", "mirror localhost:1")
	})
	t.Run("credentials", func(t *testing.T) {
		mirror.before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") != "" {
				t.Error("the mirror got the credentials of the registry")
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		})
		auth := map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte("me:secret"))}
		t.Setenv("DOCKER_CONFIG", login(t, map[string]any{"auths": map[string]any{origin.host: auth}}))
		opts := mirrors(origin.host, mirror.host)
		opts.Keychain = nil
		origin.before(demand)
		pulls(t, ref, opts)
	})
}

// login writes the configuration of docker login, and returns its directory.
func login(t *testing.T, config any) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// demand refuses requests without the password "secret" of the user "me".
func demand(w http.ResponseWriter, r *http.Request) bool {
	if user, password, _ := r.BasicAuth(); user == "me" && password == "secret" {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

// TestCredentials pulls with the passwords and helpers of docker login, with and without tokens.
func TestCredentials(t *testing.T) {
	registry := serve(t)
	ref := registry.push(t, image1(t, "secret content"), "private:v1")
	helpers := t.TempDir()
	helper := func(name, script string) {
		file := filepath.Join(helpers, "docker-credential-"+name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	helper("works", `read server; test "$1" = get || exit 1
printf '{"ServerURL":"%s","Username":"me","Secret":"secret"}' "$server"`)
	helper("fails", `echo "the vault is locked" >&2; exit 1`)
	t.Setenv("PATH", helpers+":"+os.Getenv("PATH"))
	auth := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	tokens := func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			if !demand(w, r) {
				_, _ = io.WriteString(w, `{"token":"a token"}`)
			}
		case r.Header.Get("Authorization") == "Bearer a token":
			return false
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, registry.host))
			w.WriteHeader(http.StatusUnauthorized)
		}
		return true
	}
	for what, config := range map[string]map[string]any{
		"password":   {"auths": map[string]any{registry.host: map[string]string{"auth": auth}}},
		"helper":     {"credHelpers": map[string]string{registry.host: "works"}},
		"its store":  {"credsStore": "works"},
		"wrong one":  {"auths": map[string]any{registry.host: map[string]string{"auth": "bWU6d3JvbmchIQ=="}}},
		"no helper":  {"credHelpers": map[string]string{registry.host: "is-missing"}},
		"bad helper": {"credHelpers": map[string]string{registry.host: "fails"}},
		"none":       {},
	} {
		for how, hook := range map[string]func(http.ResponseWriter, *http.Request) bool{"basic": demand, "token": tokens} {
			t.Run(what+", "+how, func(t *testing.T) {
				t.Setenv("DOCKER_CONFIG", login(t, config))
				registry.before(hook)
				pulled, err := open(t, t.TempDir()).Pull(t.Context(), ref, image.PullOptions{})
				switch what {
				case "password", "helper", "its store":
					if err != nil {
						t.Fatal(err)
					}
					has(t, pulled, "secret content")
				default:
					wantKind(t, err, core.KindUnauthorized, ref)
					if strings.Contains(what, "helper") && !strings.Contains(err.Error(), "the credentials for "+registry.host) {
						t.Errorf("the error does not name the helper's failure: %v", err)
					}
					if strings.Contains(err.Error(), "wrong!!") || core.HintOf(err) == "" {
						t.Errorf("the error is %v (%s)", err, core.HintOf(err))
					}
				}
			})
		}
	}
}

// TestInsecure pulls over http, and with a certificate that cannot be verified. Both need images.insecure.
func TestInsecure(t *testing.T) {
	plain := serve(t)
	plain.push(t, image1(t, "plain content"), "tool:v1")
	backend := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	web := httptest.NewUnstartedServer(backend)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	signed := strings.TrimPrefix(web.URL, "https://")
	for what, test := range map[string]struct{ host, address, text string }{
		"http":        {"registry.example:5000", plain.host, "http instead of https"},
		"private":     {"10.0.0.1:5000", plain.host, "http instead of https"},
		"certificate": {"registry.example", signed, "certificate cannot be verified"},
		"loopback":    {signed, signed, "certificate cannot be verified"},
	} {
		t.Run(what, func(t *testing.T) {
			store, ref := image.Via(open(t, t.TempDir()), test.address), test.host+"/tool:v1"
			err := second(store.Pull(t.Context(), ref, image.PullOptions{Keychain: keys{}}))
			wantKind(t, err, core.KindUnavailable, ref, test.text)
			if want := "sb config set images.insecure " + test.host; !strings.HasSuffix(core.HintOf(err), want) {
				t.Errorf("the hint is %q, want %q", core.HintOf(err), want)
			}
			trusting := image.PullOptions{Keychain: keys{}, Registries: core.Registries{Insecure: []string{test.host}}}
			err = second(store.Pull(t.Context(), ref, trusting))
			if test.address == plain.host && err != nil {
				t.Errorf("where http is allowed: %v", err)
			}
			if test.address == signed {
				wantKind(t, err, core.KindNotFound) // the server has no image
			}
		})
	}
}

// TestRetryAfter pulls from registries that allow no more requests for some time.
func TestRetryAfter(t *testing.T) {
	registry := serve(t)
	ref := registry.push(t, image1(t, "content"), "a:v1")
	for after, kind := range map[string]core.Kind{
		"0": core.KindInternal, "3600": core.KindExhausted, "Wed, 21 Oct 2999 07:28:00 GMT": core.KindExhausted,
		"soon": core.KindExhausted, "": core.KindExhausted,
	} {
		t.Run(after, func(t *testing.T) {
			var refused atomic.Int64
			registry.before(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/manifests/") || after == "0" && refused.Load() == 2 {
					return false
				}
				refused.Add(1)
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			})
			err := second(open(t, t.TempDir()).Pull(t.Context(), ref, image.PullOptions{}))
			if kind == core.KindInternal {
				if err != nil || refused.Load() != 2 {
					t.Errorf("after %d refusals: %v", refused.Load(), err)
				}
				return
			}
			wantKind(t, err, kind, ref)
			most := int64(1)
			if after == "soon" || after == "" {
				most = 3 // it does not say when
			}
			if refused.Load() > most || !strings.Contains(core.HintOf(err), "docker login") {
				t.Errorf("%d requests, and the hint %q", refused.Load(), core.HintOf(err))
			}
		})
	}
}

// TestRedirect pulls layers from another host. The password stays at the registry.
func TestRedirect(t *testing.T) {
	registry, store := serve(t), serve(t)
	img := image1(t, "content elsewhere")
	ref := registry.push(t, img, "a:v1")
	store.push(t, img, "a:v1")
	store.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			t.Error("the other host got the password")
		}
		return false
	})
	registry.before(func(w http.ResponseWriter, r *http.Request) bool {
		if demand(w, r) {
			return true
		}
		if isBlob(r) {
			http.Redirect(w, r, "http://"+store.host+r.URL.Path, http.StatusTemporaryRedirect)
		}
		return isBlob(r)
	})
	opts := image.PullOptions{Keychain: keys{Username: "me", Password: "secret"}}
	pulled, err := open(t, t.TempDir()).Pull(t.Context(), ref, opts)
	if err != nil {
		t.Fatal(err)
	}
	has(t, pulled, "content elsewhere")
	registry.before(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	wantKind(t, second(open(t, t.TempDir()).Pull(t.Context(), ref, opts)), core.KindUnavailable, ref)
}

// TestDrops pulls from a registry that drops each connection after a kilobyte.
func TestDrops(t *testing.T) {
	registry := serve(t)
	// Random text would not fit in a kilobyte, and repeated text would.
	var content strings.Builder
	for i := range 4096 {
		fmt.Fprintf(&content, "%x ", i*i*2654435761)
	}
	ref := registry.push(t, image1(t, content.String()), "a:v1")
	registry.before(func(w http.ResponseWriter, r *http.Request) bool {
		if isBlob(r) {
			w.Header().Set("Content-Length", "20000")
			_, _ = w.Write(make([]byte, 1024))
			panic(http.ErrAbortHandler)
		}
		return false
	})
	err := second(open(t, t.TempDir()).Pull(t.Context(), ref, image.PullOptions{}))
	wantKind(t, err, core.KindUnavailable, ref, "3 attempts")
}
