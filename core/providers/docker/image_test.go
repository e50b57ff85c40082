package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// load puts the test image into the engine: Debian's static busybox under the names of its commands.
func (e testEngine) load(t testing.TB) {
	t.Helper()
	c, err := client.New(client.WithHost(e.host))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.ImageInspect(t.Context(), testImage); err == nil {
		return
	}
	answer, err := c.ImageLoad(t.Context(), bytes.NewReader(testArchive(t, testImage)))
	if err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	_, err = io.Copy(io.Discard, answer)
	if err := errors.Join(err, answer.Close()); err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
}

const busybox = "/bin/busybox"

// testArchive is an image as "docker save" writes it.
func testArchive(t testing.TB, name string) []byte {
	t.Helper()
	layer := testLayer(t)
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Env": []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "FROM_IMAGE=yes"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"config.json", config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		add(t, w, &tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content)), Typeflag: tar.TypeReg}, f.content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func testLayer(t testing.TB) []byte {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Skipf("the tests need Debian's busybox-static: %v", err)
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
		add(t, w, &tar.Header{Name: dir.name, Mode: dir.mode, Typeflag: tar.TypeDir}, nil)
	}
	passwd := []byte("root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/home:/bin/sh\n")
	group := []byte("root:x:0:\ndev:x:1000:\nextra:x:2000:dev\n")
	add(t, w, &tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}, program)
	add(t, w, &tar.Header{Name: "etc/passwd", Mode: 0o644, Size: int64(len(passwd)), Typeflag: tar.TypeReg}, passwd)
	add(t, w, &tar.Header{Name: "etc/group", Mode: 0o644, Size: int64(len(group)), Typeflag: tar.TypeReg}, group)
	for name := range strings.FieldsSeq(`sh cat ls sleep head printf pwd true false id stat ln chmod diff readlink cut tty stty rm touch mkdir
		echo env ps kill wget nc ip mount grep wc date dd tar find unshare chroot mknod hostname sysctl test nsenter arping seq tail rmdir mv cp tr httpd sync`) {
		add(t, w, &tar.Header{Name: "bin/" + name, Linkname: "busybox", Typeflag: tar.TypeSymlink}, nil)
	}
	add(t, w, &tar.Header{Name: "usr/bin/yes", Linkname: "/bin/busybox", Typeflag: tar.TypeSymlink}, nil)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return layer.Bytes()
}

func add(t testing.TB, w *tar.Writer, h *tar.Header, content []byte) {
	t.Helper()
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
}
