package docker

import (
	"context"
	"io"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
	"github.com/seed-0724f904/sb/core/providers/docker/image"
)

// Images reads the images of the engine that the provider would use. Each call connects to the engine. It is safe for
// concurrent use.
type Images struct{ opts Options }

// NewImages returns the images. It does no I/O.
func NewImages(opts Options) *Images { return &Images{opts} }

// ImageID returns the id of an image by its name or id. KindUnavailable: no engine answers. KindNotFound: it has no
// such image.
func (i *Images) ImageID(ctx context.Context, name string) (id string, err error) {
	err = i.with(func(p *Provider) error {
		e, err := p.connect(ctx)
		if err != nil {
			return err
		}
		found, err := image.Inspect(ctx, e.Engine, name)
		id = found.ID
		return err
	})
	return id, err
}

// SaveImage writes an image in the format of "docker save". Only ctx bounds it.
func (i *Images) SaveImage(ctx context.Context, id string, to io.Writer) error {
	return i.with(func(p *Provider) error {
		e, err := p.connect(ctx)
		if err != nil {
			return err
		}
		archive, err := e.Client.ImageSave(ctx, []string{id})
		if err != nil {
			return engine.Classify(ctx, "image", id, err)
		}
		defer func() { _ = archive.Close() }()
		_, err = io.Copy(to, archive)
		return err
	})
}

// with calls do with a provider for one operation.
func (i *Images) with(do func(*Provider) error) error {
	made, err := New(i.opts)
	if err != nil {
		return err
	}
	p, ok := made.(*Provider)
	if !ok {
		return core.Errorf(core.KindInternal, "docker.image", "", "there is no provider")
	}
	defer func() { _ = p.Close() }()
	return do(p)
}
