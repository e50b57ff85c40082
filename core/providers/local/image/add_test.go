package image_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

func TestAdd(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	id := "sha256:" + strings.Repeat("ab", 32)
	written := 0
	addition := image.Addition{ID: id, Ref: "made:1", Config: image.Config{User: "dev"}, Write: func(
		_ context.Context, file string,
	) error {
		written++
		return os.WriteFile(file, []byte("content"), 0o600)
	}}
	if store.Has(id) {
		t.Error("it is stored before Add")
	}
	for _, ref := range []string{"made:1", "made:2", ""} {
		addition.Ref = ref
		added, err := store.Add(t.Context(), addition)
		if err != nil || added.ID != id || added.Config.User != "dev" || added.Size != 7 {
			t.Fatalf("%+v, %v", added, err)
		}
	}
	if written != 1 || !store.Has(id) {
		t.Errorf("it was written %d times", written)
	}
	got, err := store.Pull(t.Context(), "made:2", image.PullOptions{})
	if err != nil || got.ID != id || len(got.Refs) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	// An image that was built here has the configuration of its build for other tools.
	file, err := store.Source(id)
	if err != nil || file.Config.User != "dev" || file.OS != "linux" || file.Architecture == "" {
		t.Errorf("the configuration is %+v, %v", file, err)
	}
	for _, ref := range []string{"UPPER", "dir:/tmp", "a@" + id} {
		addition.Ref = ref
		wantKind(t, second(store.Add(t.Context(), addition)), core.KindUsage, ref)
	}
	// A failure leaves nothing.
	failing := image.Addition{ID: "sha256:" + strings.Repeat("cd", 32), Ref: "made:3", Write: func(
		_ context.Context, file string,
	) error {
		return errors.Join(os.WriteFile(file, []byte("half"), 0o600), errors.New("it broke"))
	}}
	if _, err := store.Add(t.Context(), failing); err == nil || store.Has(failing.ID) {
		t.Errorf("an image whose writing failed is stored: %v", err)
	}
	wantClean(t, store, dir)
}
