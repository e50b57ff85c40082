package image

import (
	"context"
	"errors"

	"github.com/seed-0724f904/sb/core"
)

// Store keeps the images of one user in a directory. Several processes may use it at once.
type Store struct{ dir string }

// Open returns the store in a directory, which is made by the first Pull.
func Open(dir string) (*Store, error) { return &Store{dir: dir}, nil }

// Pull returns the image that ref names, after storing it if the policy asks for it. Two pulls of the same image at
// once do the work once. ref is a registry's reference ("python:3.12", "ghcr.io/me/dev@sha256:…"), "oci:DIR[:TAG]",
// "oci-archive:FILE[:TAG]", "docker-archive:FILE[:TAG]" or "dir:PATH".
//
// KindUsage: the reference is invalid, or the image is hostile or damaged. KindNotFound: there is no such image.
// KindUnauthorized: the registry refuses the credentials. KindUnavailable: the registry cannot be reached.
// KindExhausted: the disk or a limit of the unpacker is full.
func (s *Store) Pull(ctx context.Context, ref string, opts PullOptions) (Image, error) {
	return Image{}, errors.ErrUnsupported
}

// Get returns a stored image by a reference, an id, or a unique prefix of an id of at least 12 hex digits.
// KindNotFound: it is not stored.
func (s *Store) Get(ctx context.Context, ref string) (Image, error) {
	return Image{}, core.Errorf(core.KindNotFound, "local.image", ref, "there is no image %q", ref)
}

// List returns the stored images in the order of their first reference, those without one last. A damaged entry is
// left out and joined into the error.
func (s *Store) List(ctx context.Context) ([]Image, error) { return nil, nil }

// Remove removes a reference; with its last reference, or by its id, the image goes. KindNotFound: it is not stored.
// KindConflict: Hold has it.
func (s *Store) Remove(ctx context.Context, ref string) error { return errors.ErrUnsupported }

// Prune removes the images that have no reference and the remains of broken pulls. It returns the removed images.
func (s *Store) Prune(ctx context.Context) ([]Image, error) { return nil, nil }
