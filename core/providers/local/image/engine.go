package image

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Engine has the images of a container engine.
type Engine interface {
	// ImageID returns the id of an image by its name or id: "sha256:…". KindUnavailable: there is no engine.
	// KindNotFound: it has no such image.
	ImageID(ctx context.Context, name string) (string, error)
	// SaveImage writes an image in the format of "docker save".
	SaveImage(ctx context.Context, id string, to io.Writer) error
}

// marker returns the name of a file in an image's directory. It marks the image that the engine has by an id.
func marker(id string) string { return "engine-" + strings.TrimPrefix(id, "sha256:") }

// known returns the stored image of a reference "docker-daemon:NAME", if the engine still has the same image by that
// name. Without an engine, the policy PullMissing uses the stored image. engineID is "" if the engine cannot be asked.
func (s *Store) known(
	ctx context.Context, t target, opts PullOptions,
) (stored Image, engineID string, err error) {
	if opts.Engine == nil {
		err = core.Errorf(core.KindUnavailable, "local.image", "", "there is no container engine here")
	} else {
		engineID, err = opts.Engine.ImageID(ctx, t.tag)
	}
	if err != nil {
		stored, storedErr := s.Get(ctx, t.key())
		if storedErr == nil && opts.Policy != core.PullAlways && errors.Is(err, core.KindUnavailable) {
			return stored, "", nil
		}
		return Image{}, "", err
	}
	if hex, _, ok := isID(engineID); !ok || len(hex) != 64 {
		return Image{}, "", core.Errorf(core.KindUnavailable, "local.image", "", "the engine has the invalid id %q", engineID)
	}
	marked, err := filepath.Glob(filepath.Join(s.dir, imagesDir, "*", marker(engineID)))
	if err != nil || len(marked) == 0 {
		return Image{}, engineID, notStored(t.key())
	}
	r, err := s.read(filepath.Base(filepath.Dir(marked[0])), nil)
	if err != nil {
		err = notStored(t.key())
	}
	return r.Image, engineID, err
}

// mark records the engine's id of a stored image. The caller holds the image's lock.
func (s *Store) mark(hex, engineID string) error {
	return os.WriteFile(filepath.Join(s.dir, imagesDir, hex, marker(engineID)), nil, 0o600)
}

// findEngine copies an image of the engine into the directory of unfinished pulls, and opens it there. close removes
// the copy.
func (s *Store) findEngine(ctx context.Context, id string, opts PullOptions) (_ *found, err error) {
	name := marker(id)
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(s.dir, workDir, name)
	remove := func() error {
		defer unlock()
		return os.RemoveAll(work)
	}
	defer func() {
		if err != nil {
			_ = remove()
		}
	}()
	if err := os.RemoveAll(work); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(work, "archive.tar")
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(opts.Engine.SaveImage(ctx, id, out), out.Close()); err != nil {
		return nil, err
	}
	archive, err := findLocal(target{place: placeDockerArchive, path: file})
	if err != nil {
		return nil, err
	}
	closeArchive := archive.close
	archive.close = func() error { return errors.Join(closeArchive(), remove()) }
	return archive, nil
}
