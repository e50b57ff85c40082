//go:build linux

package modaltest_test

import (
	"strings"
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core/providertest"
)

// A snapshot has written files and lacks removed ones, and so has a built image. The backend's snapshot is removed with
// its image or with the server.
func TestSnapshots(t *testing.T) {
	r := newRig(t, nil)
	built, err := r.image.DockerfileCommands(
		[]string{"RUN echo built >/etc/made && rm /etc/hosts", "WORKDIR /work", "ENV KIND=image"}, nil,
	).Build(t.Context(), r.app, nil)
	if err != nil {
		t.Fatal(err)
	}
	create := func(image *sdk.Image, params *sdk.SandboxCreateParams) *sdk.Sandbox {
		t.Helper()
		sb, err := r.client.Sandboxes.Create(t.Context(), r.app, image, params)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sb.Detach() })
		return sb
	}
	first := create(built, nil)
	if out := run(
		t, first, "pwd; cat /etc/made; echo $KIND; test -e /etc/hosts || echo gone",
	); out != "/work\nbuilt\nimage\ngone\n" {
		t.Errorf("the built image has %q", out)
	}
	run(
		t, first,
		"rm /etc/made; mkdir -p /data && echo kept >/data/file && chmod 600 /data/file && ln -s file /data/link && rm -r "+
			"/usr/share/doc",
	)
	begin := time.Now()
	snapshot, err := first.SnapshotFilesystem(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a snapshot took %s", time.Since(begin))
	second := create(
		snapshot,
		&sdk.SandboxCreateParams{
			Command: []string{
				"sh", "-c",
				"cat /data/link; stat -c %a /data/file; test -e /etc/made || echo gone; test -e /usr/share/doc || echo gone",
			},
		},
	)
	if code, err := second.Wait(providertest.Patient(t), nil); err != nil || code != 0 {
		t.Errorf("code %d, %v", code, err)
	}
	var out strings.Builder
	buffer := make([]byte, 256)
	for {
		n, err := second.Stdout.Read(buffer)
		out.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	if out.String() != "kept\n600\ngone\ngone\n" {
		t.Errorf("the snapshot has %q", out.String())
	}

	// An image can be mounted at a directory. An image of a directory has no other use.
	run(t, first, "mkdir /shown")
	if err := first.MountImage(t.Context(), "/shown", snapshot, nil); err != nil {
		t.Fatal(err)
	}
	if out := run(t, first, "cat /shown/data/file"); out != "kept\n" {
		t.Errorf("the mounted image has %q", out)
	}
	part, err := first.SnapshotDirectory(t.Context(), "/data", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Sandboxes.Create(t.Context(), r.app, part, nil); err == nil ||
		!strings.Contains(err.Error(), "mounted only") {
		t.Errorf("launched from an image of a directory: %v", err)
	}
	if err := r.client.Images.Delete(t.Context(), snapshot.ImageID, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Sandboxes.Create(t.Context(), r.app, snapshot, nil); status.Code(err) != codes.NotFound {
		t.Errorf("launched from an image that was deleted: %v", err)
	}
}
