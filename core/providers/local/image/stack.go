package image

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
)

// Layer writes the archive of a sandbox's writable layer as a layer of an image: layer.FromOverlay.
func Layer(to io.Writer, archive io.Reader) error {
	return layer.FromOverlay(to, archive, func(string) bool { return false })
}

// SortLayer writes a layer so that the same files always give the same bytes: layer.Sort.
func SortLayer(to io.Writer, from io.ReadSeeker) error { return layer.Sort(to, from) }

// AddOver stores an image that is a layer over a stored base, and returns it. The image has the base's configuration.
// with calls its argument with the layer, a tar archive. AddOver calls with only for an image that is not stored.
// Errors are those of Add.
func (s *Store) AddOver(
	ctx context.Context, a Addition, base Image, with func(ctx context.Context, apply func(io.Reader) error) error,
) (Image, error) {
	a.Config = base.Config
	a.Write = func(ctx context.Context, file string) error {
		return with(ctx, func(archive io.Reader) error { return stack(ctx, a, base.Path, archive, file) })
	}
	return s.Add(ctx, a)
}

// stack writes the file of an image with a layer over the file base.
func stack(ctx context.Context, a Addition, base string, archive io.Reader, file string) (err error) {
	out, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	err = copyFile(base, func(f *os.File) error {
		_, err := io.Copy(out, f) // as a reflink where the file system has those
		return err
	})
	if err != nil {
		return err
	}
	limits := layer.DefaultLimits()
	limits.Ratio = math.MaxInt64 // the layer is not compressed
	tree, err := layer.Reopen(out, limits, layer.NewMeter(limits))
	if err != nil {
		return core.Errorf(core.KindInternal, "local.image", "", "the base image cannot be read: %w", err).
			WithHint("sb doctor shows which images are damaged")
	}
	if err := tree.Apply(ctx, archive); err != nil {
		return err
	}
	return errors.Join(tree.Prepare(a.Config.WorkingDir), tree.Finish(identity(v1.Hash{
		Algorithm: "sha256", Hex: strings.TrimPrefix(a.ID, "sha256:"),
	})))
}
