package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
	"github.com/seed-0724f904/sb/core/providers/docker/image"
)

const (
	registryUser     = "alice"
	registryPassword = "pass word"
)

// privateRegistry serves the test image with a layer of its own as NAME/private:1, only to authenticated clients.
// BuildKit merges concurrent builds whose base images have the same layers. A build of another test could then need
// this registry.
func privateRegistry(t *testing.T) (address string) {
	t.Helper()
	archive, err := dockertest.Archive(testImage)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	files["own.tar"], files["config.json"] = ownLayer(t, files["config.json"])
	blobs := map[string][]byte{}
	blob := func(kind, name string) map[string]any {
		sum := sha256.Sum256(files[name])
		digest := "sha256:" + hex.EncodeToString(sum[:])
		blobs[digest] = files[name]
		return map[string]any{"mediaType": kind, "digest": digest, "size": len(files[name])}
	}
	const manifestKind = "application/vnd.docker.distribution.manifest.v2+json"
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestKind,
		"config": blob("application/vnd.docker.container.image.v1+json", "config.json"),
		"layers": []any{
			blob("application/vnd.docker.image.rootfs.diff.tar", "layer.tar"),
			blob("application/vnd.docker.image.rootfs.diff.tar", "own.tar"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != registryUser || password != registryPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		sum := sha256.Sum256(manifest)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		_, last, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/private/"), "/")
		switch {
		case r.URL.Path == "/v2/":
		case last == "1" || last == digest:
			w.Header().Set("Content-Type", manifestKind)
			w.Header().Set("Docker-Content-Digest", digest)
			_, _ = w.Write(manifest)
		case blobs[last] != nil:
			_, _ = w.Write(blobs[last])
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// ownLayer makes a layer with one file, and adds it to an image's configuration.
func ownLayer(t *testing.T, config []byte) (layer, changed []byte) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "private", Typeflag: tar.TypeReg}), w.Close()); err != nil {
		t.Fatal(err)
	}
	var parsed map[string]any
	if err := json.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	rootfs := parsed["rootfs"].(map[string]any)
	rootfs["diff_ids"] = append(rootfs["diff_ids"].([]any), "sha256:"+hex.EncodeToString(sum[:]))
	changed, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), changed
}

// loggedIn is an environment after docker login at a registry. The password is in the configuration file or in a
// credential helper.
func loggedIn(t *testing.T, address string, helper bool) func(string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	config := map[string]any{"auths": map[string]any{
		address: map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(registryUser + ":" + registryPassword))},
	}}
	if helper {
		config = map[string]any{"credHelpers": map[string]string{address: "sbtest"}}
		script := "#!/bin/sh\nread server\nprintf '{\"ServerURL\":\"%s\",\"Username\":\"" + registryUser +
			"\",\"Secret\":\"" + registryPassword + "\"}' \"$server\"\n"
		if err := os.WriteFile(filepath.Join(dir, "docker-credential-sbtest"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(name string) (string, bool) { return dir, name == "DOCKER_CONFIG" }
}

// Docker treats a registry on its own loopback address as one without TLS. Podman needs an administrator's setting for
// that.
func TestCredentials(t *testing.T) {
	for _, e := range engines(t) {
		if e.name != "docker" {
			continue
		}
		e.load(t)
		c := e.raw(t)
		address := privateRegistry(t)
		name := address + "/private:1"
		forget := func() {
			_, _ = c.ImageRemove(context.WithoutCancel(t.Context()), name, client.ImageRemoveOptions{})
		}
		t.Cleanup(forget)
		stranger := e.open(t, nil)
		_, err := stranger.Launch(
			t.Context(), core.Spec{Name: core.NewName(), Image: name, Network: core.Network{Mode: core.NetworkNone}},
			core.Lease{}, nil,
		)
		if err == nil {
			t.Fatal("the registry gave its image to an unknown user")
		}
		for how, helper := range map[string]bool{"file": false, "helper": true} {
			p := e.open(t, func(opts *Options) { opts.LookupEnv = loggedIn(t, address, helper) })
			sb := box(t, p, func(spec *core.Spec) { spec.Image = name })
			if out, _ := sh(t, p, sb.ID, "echo $FROM_IMAGE"); out != "yes\n" {
				t.Errorf("%s: the image's environment has %q", how, out)
			}
			end(t, p, sb.ID)
			forget()
			// A build that starts from it.
			forgetBuilds(t, c)
			dir := t.TempDir()
			write(t, dir, map[string]string{"Dockerfile": "FROM " + name + " AS base\nRUN echo " + how + " > /how\n"})
			sb = box(t, p, func(spec *core.Spec) { spec.Image, spec.Dockerfile = "", dir })
			if out, _ := sh(t, p, sb.ID, "cat /how"); out != how+"\n" {
				t.Errorf("%s: built %q", how, out)
			}
			end(t, p, sb.ID)
			forget()
		}
	}
}

// A login to Docker Hub does not affect a build from scratch or from an earlier stage of the Dockerfile: neither is
// pulled.
func TestStagesAreNotImages(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, func(opts *Options) { opts.LookupEnv = loggedIn(t, image.HubKey, false) })
		forgetBuilds(t, e.raw(t))
		dir := t.TempDir()
		write(t, dir, map[string]string{
			"Dockerfile": "FROM " + testImage + " AS first\nRUN echo made > /made\nFROM first as second\nFROM scratch\nCOPY " +
				"--from=second / /\n",
		})
		var steps []string
		spec := core.Spec{Name: core.NewName(), Dockerfile: dir, Network: core.Network{Mode: core.NetworkNone}}
		sb, err := p.Launch(t.Context(), spec, lease(spec), func(step core.Progress) { steps = append(steps, step.Step) })
		if err != nil {
			t.Fatal(err)
		}
		defer end(t, p, sb.ID)
		if out, _ := sh(t, p, sb.ID, "cat /made"); out != "made\n" {
			t.Errorf("built was %q", out)
		}
		if slices.ContainsFunc(steps, func(step string) bool { return strings.HasPrefix(step, "pulling") }) {
			t.Errorf("the steps are %q", steps)
		}
	})
}
