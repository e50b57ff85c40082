package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"
)

// Image is the name of the test image: Debian's static busybox under the names of its commands, with the users
// root and dev.
const Image = "localhost/sb-test:7"

// Load loads the test image into the engine at host, unless the engine has it.
func Load(ctx context.Context, host string) error {
	c, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.ImageInspect(ctx, Image); err == nil {
		return nil
	}
	archive, err := Archive(Image)
	if err != nil {
		return err
	}
	answer, err := c.ImageLoad(ctx, bytes.NewReader(archive))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer)
	return errors.Join(err, answer.Close())
}

// Remove removes images from the engine at host.
func Remove(ctx context.Context, host string, names ...string) error {
	c, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for _, name := range names {
		if _, err := c.ImageRemove(ctx, name, client.ImageRemoveOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// LegacyBuild builds a directory with the builder that Docker had before BuildKit, and names the image.
func LegacyBuild(ctx context.Context, host, dir, name string) error {
	c, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		return err
	}
	built, err := c.ImageBuild(ctx, &archive, client.ImageBuildOptions{
		Version: build.BuilderV1, Tags: []string{name}, Remove: true, ForceRemove: true,
	})
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(built.Body)
	if err := errors.Join(err, built.Body.Close()); err != nil {
		return err
	}
	if bytes.Contains(answer, []byte(`"errorDetail"`)) {
		return fmt.Errorf("the build failed: %s", answer)
	}
	return nil
}

const busybox = "/bin/busybox"

// Archive returns the image under a name, in the format of "docker save".
func Archive(name string) ([]byte, error) {
	layer, err := busyboxLayer()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Env":        []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "FROM_IMAGE=yes"},
			"Entrypoint": []string{"/bin/false"}, "Cmd": []string{"of the image"}, "StopSignal": "SIGUSR1",
			"ExposedPorts": map[string]any{"9/tcp": map[string]any{}}, "Labels": map[string]string{"of": "the image"},
			"Healthcheck": map[string]any{"Test": []string{"CMD", "/bin/true"}, "Interval": time.Minute},
		},
		"history": []map[string]any{{"created": "2026-01-01T00:00:00Z", "created_by": "a test"}},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{
		{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}},
	})
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"config.json", config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := add(
			w, &tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content)), Typeflag: tar.TypeReg}, f.content,
		); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

func busyboxLayer() ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, fmt.Errorf("the static busybox of Debian is needed: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []struct {
		name string
		mode int64
	}{
		{"bin/", 0o755},
		{"etc/", 0o755},
		{"usr/", 0o755},
		{"usr/bin/", 0o755},
		{"proc/", 0o555},
		{"sys/", 0o555},
		{"dev/", 0o755},
		{"root/", 0o700},
		{"tmp/", 0o1777},
		{"home/", 0o755},
	} {
		if err := add(w, &tar.Header{Name: dir.name, Mode: dir.mode, Typeflag: tar.TypeDir}, nil); err != nil {
			return nil, err
		}
	}
	passwd := []byte("root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/home:/bin/sh\n")
	group := []byte("root:x:0:\ndev:x:1000:\nextra:x:2000:dev\n")
	if err := add(
		w, &tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}, program,
	); err != nil {
		return nil, err
	}
	if err := add(
		w, &tar.Header{Name: "etc/passwd", Mode: 0o644, Size: int64(len(passwd)), Typeflag: tar.TypeReg}, passwd,
	); err != nil {
		return nil, err
	}
	if err := add(
		w, &tar.Header{Name: "etc/group", Mode: 0o644, Size: int64(len(group)), Typeflag: tar.TypeReg}, group,
	); err != nil {
		return nil, err
	}
	for name := range strings.FieldsSeq(`sh cat ls sleep head printf pwd true false id stat ln chmod diff readlink cut tty stty rm touch mkdir
		echo env ps kill wget nc ip mount grep wc date dd tar find unshare chroot mknod hostname sysctl test nsenter arping seq tail rmdir mv cp tr httpd sync`) {
		if err := add(w, &tar.Header{Name: "bin/" + name, Linkname: "busybox", Typeflag: tar.TypeSymlink}, nil); err != nil {
			return nil, err
		}
	}
	if err := add(
		w, &tar.Header{Name: "usr/bin/yes", Linkname: "/bin/busybox", Typeflag: tar.TypeSymlink}, nil,
	); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

func add(w *tar.Writer, h *tar.Header, content []byte) error {
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
