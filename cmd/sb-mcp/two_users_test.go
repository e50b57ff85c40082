//go:build linux

package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// busybox pushes a small image to a registry of the test and returns its reference.
func busybox(t *testing.T) string {
	t.Helper()
	const tag = "busybox:test"
	archive, err := dockertest.Archive(tag)
	if err != nil {
		t.Fatal(err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }
	image, err := tarball.Image(open, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(web.Close)
	reference := strings.TrimPrefix(web.URL, "http://") + "/" + tag
	at, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(at, image); err != nil {
		t.Fatal(err)
	}
	return reference
}

// Two users of the machine use the same names for images, volumes and sandboxes at the same time. Each has only what it
// made, and the files of one are closed to the other.
func TestTwoUsers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := newUser(t, h)
	u.bring(h, "sb-runtime")
	u.bring(h, "sb-guest")
	t.Cleanup(func() { // run has a context that has ended by now
		if out, ok := u.runIn(context.WithoutCancel(t.Context()), nil, u.sb, "terminate", "--all", "--yes"); !ok {
			t.Errorf("the second user's end: %s", out)
		}
	})
	image := busybox(t)
	files := filepath.Join(filepath.Dir(u.sb), "context")
	dockerfile := []byte("FROM " + image + "\nARG WHO\nRUN echo $WHO > /who\n")
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "Dockerfile"), dockerfile, 0o644); err != nil {
		t.Fatal(err)
	}
	story := func(sb string) []string {
		return []string{"/bin/sh", "-ec", `
sb=$0 who=$1 image=$2 context=$3
$sb image pull --provider local -q "$image" >/dev/null
$sb image build --provider local --network none -q -t same:1 --build-arg WHO="$who" "$context" >/dev/null
$sb launch --provider local --name same --image same:1 --network none --volume data:/data -q >/dev/null
$sb exec same -- sh -c 'cat /who; cp /who /data/who'
$sb volume cp data:/who -
$sb volume ls -q --provider local
$sb ls -q --all | wc -l
$sb image ls -q --provider local | wc -l
$sb doctor local >doctor || cat doctor
`, sb}
	}
	const whole = "\ndata\n1\n2\n"
	other := make(chan string, 1)
	go func() {
		out, _ := u.run(
			[]string{"SB_DOCKER_HOST=none", "SB_LOCAL_SPARES=0"}, append(story(u.sb), "other", image, files)...,
		)
		other <- out
	}()
	argv := append(story(filepath.Join(h.bin, "sb")), "own", image, files)
	first := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	first.Env, first.Dir = h.env, h.dir
	text, err := first.CombinedOutput()
	own := string(text)
	if err != nil {
		t.Errorf("the first user: %v", err)
	}
	if want := "own\nown" + whole; own != want {
		t.Errorf("the first user has %q, want %q", own, want)
	}
	if got, want := providertest.Receive(t, other), "other\nother"+whole; got != want {
		t.Errorf("the second user has %q, want %q", got, want)
	}
	// The state of the first user is none of the second user's.
	theirs := []string{"XDG_STATE_HOME=" + filepath.Join(h.dir, "state"), "SB_DOCKER_HOST=none"}
	for _, command := range []string{"volume rm --yes data", "image rm --provider local --yes same:1", "terminate same"} {
		out, ok := u.run(theirs, append([]string{u.sb}, strings.Fields(command)...)...)
		if ok || !strings.Contains(out, fs.ErrPermission.Error()) {
			t.Errorf("sb %s with the other's state: %q", command, out)
		}
	}
	if out := h.sb("exec", "same", "--", "cat", "/data/who"); out != "own\n" {
		t.Errorf("after that the first user has %q", out)
	}
	kept := filepath.Join(h.dir, "state", "sb", "local")
	for _, pattern := range []string{
		"images/images/*/image.json", "volumes/data/volume.json", "sandboxes/*/client/lease.json",
	} {
		found, err := filepath.Glob(filepath.Join(kept, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		u.cannotRead(found[0])
	}
}
