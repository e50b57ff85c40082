package image_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// flip changes the byte in the middle of a file. The file keeps its modification time, as after a fault of the disk.
func flip(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw[len(raw)/2] ^= 1
	return errors.Join(os.WriteFile(path, raw, 0o600), os.Chtimes(path, time.Time{}, info.ModTime()))
}

// TestDamage damages each file of the store. Check names the damage and the command that repairs it, and that command
// does.
func TestDamage(t *testing.T) {
	registry, dir := serve(t), t.TempDir()
	ref := registry.push(t, image1(t, strings.Repeat("content", 1000)), "a:v1")
	store := open(t, dir)
	pulled, err := store.Pull(t.Context(), ref, image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info, refs := filepath.Join(filepath.Dir(pulled.Path), "image.json"), filepath.Join(dir, "refs.json")
	for what, test := range map[string]struct {
		damage func() error
		// usable: a launch works all the same.
		usable bool
	}{
		"flipped byte": {func() error { return flip(pulled.Path) }, true},
		"truncated":    {func() error { return os.Truncate(pulled.Path, pulled.Size-1) }, false},
		"lost":         {func() error { return os.Remove(pulled.Path) }, false},
		"changed": {func() error {
			return errors.Join(flip(pulled.Path), os.Chtimes(pulled.Path, time.Time{}, time.Now()))
		}, false},
		"record":       {func() error { return flip(info) }, true},
		"lost record":  {func() error { return os.Remove(info) }, true},
		"whole record": {func() error { return errors.Join(flip(info), flip(info+".copy")) }, false},
		"lost records": {func() error { return errors.Join(os.Remove(info), os.Remove(info+".copy")) }, false},
		"references":   {func() error { return flip(refs) }, true},
		"all references": {func() error {
			return errors.Join(flip(refs), os.Remove(refs+".copy"))
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			try(t, test.damage())
			_, damage, err := store.Check(t.Context())
			if err != nil || len(damage) != 1 {
				t.Fatalf("found: %v, %v", damage, err)
			}
			if hint := core.HintOf(damage[0]); !strings.Contains(hint, "sb image pull") && what != "lost records" {
				t.Errorf("%v: the hint is %q", damage[0], hint)
			}
			if _, err := store.Pull(t.Context(), ref, image.PullOptions{}); (err == nil) != test.usable {
				t.Errorf("a launch: %v", err)
			} else if err != nil && core.HintOf(err) != core.HintOf(damage[0]) {
				t.Errorf("a launch: %v: %s", err, core.HintOf(err))
			}
			if what == "all references" {
				try(t, os.Remove(refs))
			}
			again, err := store.Pull(t.Context(), ref, image.PullOptions{Policy: core.PullAlways, Verify: true})
			if err != nil || again.ID != pulled.ID {
				t.Fatalf("%+v, %v", again, err)
			}
			has(t, again, "content")
			if sound, damage, err := store.Check(t.Context()); err != nil || len(damage) > 0 || len(sound) != 1 {
				t.Errorf("afterwards: %v, %v, %v", sound, damage, err)
			}
		})
	}
	wantClean(t, store, dir)
}

func try(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestCopiedStore uses a store whose files have other times. The first use of an image compares its checksum.
func TestCopiedStore(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	pulled, err := store.Pull(t.Context(), registry.push(t, image1(t, "content"), "a:v1"), image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	try(t, os.Chtimes(pulled.Path, later, later))
	if _, err := store.Get(t.Context(), pulled.ID); err != nil {
		t.Fatal(err)
	}
	// The new time is recorded, so only Check sees a later fault.
	try(t, flip(pulled.Path))
	if _, err := store.Get(t.Context(), pulled.ID); err != nil {
		t.Error(err)
	}
	if _, damage, err := store.Check(t.Context()); err != nil || len(damage) != 1 {
		t.Errorf("%v, %v", damage, err)
	}
	list, err := store.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Damage != nil {
		t.Errorf("%+v, %v", list, err)
	}
	try(t, os.Truncate(pulled.Path, 10))
	if list, err = store.List(t.Context()); err != nil || len(list) != 1 || list[0].Damage == nil ||
		list[0].ID != pulled.ID || len(list[0].Refs) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := store.Remove(t.Context(), pulled.ID, unused); err != nil {
		t.Errorf("a damaged image cannot be removed: %v", err)
	}
}

// TestHold removes an image that a launch is about to use.
func TestHold(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	ref := registry.push(t, image1(t, "content"), "a:v1")
	pulled, err := store.Pull(t.Context(), ref, image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	release, err := store.Hold(t.Context(), pulled.ID)
	if err != nil {
		t.Fatal(err)
	}
	second, err := store.Hold(t.Context(), pulled.ID)
	if err != nil {
		t.Fatal(err)
	}
	release()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := store.Remove(short, ref, unused); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held image: %v", err)
	}
	second()
	used := core.Errorf(core.KindConflict, "test", "", "it is used")
	if err := store.Remove(t.Context(), ref, func(string) error { return used }); !errors.Is(err, core.KindConflict) {
		t.Errorf("an image in use: %v", err)
	}
	if _, err := store.Get(t.Context(), ref); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := store.Remove(t.Context(), ref, unused); err != nil {
		t.Error(err)
	}
	if _, err := store.Hold(t.Context(), pulled.ID); !errors.Is(err, core.KindNotFound) {
		t.Errorf("a removed image: %v", err)
	}
}
