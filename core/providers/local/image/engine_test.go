package image_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// fakeEngine is a container engine with one image.
type fakeEngine struct {
	id    string
	img   v1.Image
	gone  bool
	saves int
	fails error
}

func (e *fakeEngine) ImageID(_ context.Context, name string) (string, error) {
	switch {
	case e.gone:
		return "", core.Errorf(core.KindUnavailable, "docker.connect", "", "no engine was found")
	case name != "me/dev:latest":
		return "", core.Errorf(core.KindNotFound, "docker.image", name, "no such image")
	}
	return e.id, nil
}

func (e *fakeEngine) SaveImage(_ context.Context, id string, to io.Writer) error {
	e.saves++
	if id != e.id {
		return errors.New("another image")
	}
	if e.fails != nil {
		_, _ = io.WriteString(to, "half of an archive")
		return e.fails
	}
	return tarball.Write(name.MustParseReference("me/dev"), e.img, to)
}

// TestEngine reads images of a container engine. An image is copied once, and needs no engine afterwards.
func TestEngine(t *testing.T) {
	const ref = "docker-daemon:me/dev"
	dir := t.TempDir()
	store := open(t, dir)
	engine := &fakeEngine{id: "sha256:" + strings.Repeat("a", 64), img: image1(t, "of the engine")}
	pull := func(ref string, policy core.PullPolicy) (image.Image, error) {
		return store.Pull(t.Context(), ref, image.PullOptions{Policy: policy, Engine: engine})
	}
	empty := func() {
		t.Helper()
		if left, _ := os.ReadDir(filepath.Join(dir, "work")); len(left) != 0 {
			t.Errorf("%v remain", left)
		}
	}
	wantKind(t, second(pull(ref, core.PullNever)), core.KindNotFound)
	engine.fails = core.Errorf(core.KindUnavailable, "docker.image", "", "the engine went away")
	wantKind(t, second(pull(ref, "")), core.KindUnavailable, ref, "went away")
	empty()
	engine.fails = nil
	first, err := pull(ref, "")
	if err != nil {
		t.Fatal(err)
	}
	has(t, first, "of the engine")
	if len(first.Refs) != 1 || first.Refs[0] != "docker-daemon:me/dev:latest" {
		t.Errorf("it is called %v", first.Refs)
	}
	saves := engine.saves
	for _, policy := range []core.PullPolicy{core.PullMissing, core.PullAlways, core.PullNever} {
		if got, err := pull(ref, policy); err != nil || got.ID != first.ID || engine.saves != saves {
			t.Errorf("%s: %+v, %v after %d copies", policy, got, err, engine.saves-saves)
		}
	}
	// The name leads to another image.
	engine.id, engine.img = "sha256:"+strings.Repeat("b", 64), image1(t, "built again")
	second1, err := pull(ref, "")
	if err != nil || second1.ID == first.ID {
		t.Fatalf("%+v, %v", second1, err)
	}
	has(t, second1, "built again")
	engine.gone = true
	if got, err := pull(ref, ""); err != nil || got.ID != second1.ID {
		t.Errorf("without the engine: %+v, %v", got, err)
	}
	wantKind(t, second(pull(ref, core.PullAlways)), core.KindUnavailable, ref)
	wantKind(t, second(pull("docker-daemon:other", "")), core.KindUnavailable, "docker-daemon:other")
	engine.gone = false
	wantKind(t, second(pull("docker-daemon:other", "")), core.KindNotFound, "docker-daemon:other")
	wantKind(t, second(pull("docker-daemon:", "")), core.KindUsage)
	engine.id = "../../escaped"
	wantKind(t, second(pull(ref, "")), core.KindUnavailable, "invalid id")
	without := second(store.Pull(t.Context(), "docker-daemon:none", image.PullOptions{}))
	wantKind(t, without, core.KindUnavailable, "no container engine")
	empty()
}
