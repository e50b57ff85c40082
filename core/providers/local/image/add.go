package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Addition is an image that was made on this machine.
type Addition struct {
	// ID is "sha256:" and 64 hex digits. It stands for the content: an image with the same ID is stored once.
	ID string
	// Ref is the name of the image, as in Pull; "" is none.
	Ref     string
	Config  Config
	Created time.Time
	// Write makes the image's EROFS file at a path where there is none. Add calls it only for an image that is not stored.
	Write func(ctx context.Context, file string) error
}

// Add stores an image that was made on this machine, and returns it. Concurrent calls for the same image do the work
// once. KindUsage: the name is invalid, or not that of a registry.
func (s *Store) Add(ctx context.Context, a Addition) (Image, error) {
	key, err := nameOf(a.Ref)
	if err != nil {
		return Image{}, err
	}
	hex := strings.TrimPrefix(a.ID, "sha256:")
	unlock, err := s.lock(ctx, hex)
	if err != nil {
		return Image{}, classify(a.Ref, err)
	}
	defer unlock()
	if _, err := s.read(hex, nil); err != nil {
		if err := s.add(ctx, hex, a); err != nil {
			return Image{}, classify(a.Ref, err)
		}
	}
	if key != "" {
		if err := s.updateRefs(ctx, func(refs map[string]string) { refs[key] = a.ID }); err != nil {
			return Image{}, classify(a.Ref, err)
		}
	}
	refs, err := s.refs()
	if err != nil {
		return Image{}, err
	}
	r, err := s.read(hex, refs)
	return r.Image, err
}

// Has reports whether an image with an id is stored.
func (s *Store) Has(id string) bool {
	_, err := s.read(strings.TrimPrefix(id, "sha256:"), nil)
	return err == nil
}

// CheckName returns KindUsage unless a name can be given to an image that is made here.
func CheckName(ref string) error {
	_, err := nameOf(ref)
	return err
}

// Familiar returns an image's name as Docker shows it: "app:latest" for "app". It returns "" for every other reference.
func Familiar(ref string) string {
	key, err := nameOf(ref)
	if err != nil {
		return ""
	}
	return key
}

func nameOf(ref string) (key string, err error) {
	if ref == "" {
		return "", nil
	}
	t, err := parse(ref)
	if err != nil {
		return "", err
	}
	if _, pinned := digested(t); t.place != "" || pinned {
		return "", core.Errorf(core.KindUsage, "local.image", ref, "invalid image name: write a name such as app:1.0")
	}
	return t.key(), nil
}

func (s *Store) add(ctx context.Context, hex string, a Addition) (err error) {
	work := filepath.Join(s.dir, workDir, hex)
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	out := filepath.Join(work, "image")
	if err := os.MkdirAll(out, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	file := filepath.Join(out, rootFile)
	if err := a.Write(ctx, file); err != nil {
		return err
	}
	r, err := measure(ctx, file)
	if err != nil {
		return err
	}
	r.ID, r.Config, r.Created, r.Imported = a.ID, a.Config, a.Created, a.Ref != ""
	return s.publish(hex, out, r)
}

// measure waits until an EROFS file is on the disk, and returns a record with its size, time and checksum.
func measure(ctx context.Context, name string) (r record, err error) {
	f, err := os.Open(name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return r, err
	}
	info, err := f.Stat()
	if err != nil {
		return r, err
	}
	r.Size, r.Written = info.Size(), info.ModTime()
	r.CRC32C, err = checksum(ctx, f)
	return r, err
}
