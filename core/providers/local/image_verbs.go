//go:build linux

package local

import (
	"context"
	"errors"
	"io"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

var (
	_ core.ImageEditor = (*Provider)(nil)
	_ core.ImagePorter = (*Provider)(nil)
	_ core.ImagePusher = (*Provider)(nil)
	_ core.ImagePruner = (*Provider)(nil)
)

// InspectImage implements core.ImageEditor.
func (p *Provider) InspectImage(ctx context.Context, ref string) (core.ImageDetails, error) {
	images, err := p.openImages()
	if err != nil {
		return core.ImageDetails{}, err
	}
	s, err := p.snapshotOf(ctx, ref)
	if err != nil {
		return core.ImageDetails{}, err
	}
	if s != nil {
		ref = s.Root
	}
	found, err := images.Get(ctx, ref)
	if s != nil && errors.Is(err, core.KindNotFound) {
		err = s.lostImage("image")
	}
	if err != nil {
		return core.ImageDetails{}, err
	}
	file, err := images.Source(found.ID)
	if err != nil {
		return core.ImageDetails{}, err
	}
	c := found.Config
	details := core.ImageDetails{
		ImageInfo: imageInfo(found), Platform: file.OS + "/" + file.Architecture, Entrypoint: c.Entrypoint, Command: c.Cmd,
		Env: c.Env, User: c.User, Workdir: c.WorkingDir, StopSignal: c.StopSignal, Ports: c.ExposedPorts,
		Volumes: c.Volumes, Labels: c.Labels, NoXattrs: found.NoXattrs,
	}
	if s != nil {
		// The digest of the snapshot's layer is known only after an export.
		id, err := s.imageID()
		details.ImageInfo = p.snapshotInfo(ctx, images, id, *s)
		return details, err
	}
	for _, l := range file.RootFS.DiffIDs {
		details.Layers = append(details.Layers, l.String())
	}
	users, err := p.usersOf(found.ID)
	for _, u := range users {
		details.UsedBy = append(details.UsedBy, u.kind+" "+u.name)
	}
	return details, err
}

// TagImage implements core.ImageEditor. A snapshot with another name becomes an image of its own, which stays after the
// snapshot's removal.
func (p *Provider) TagImage(ctx context.Context, ref, name string) error {
	if err := p.free(name); err != nil {
		return err
	}
	images, err := p.openImages()
	if err != nil {
		return err
	}
	s, err := p.snapshotOf(ctx, ref)
	if err != nil {
		return err
	}
	if s != nil {
		_, err := p.flat(ctx, *s, name, nil)
		return err
	}
	return images.Tag(ctx, ref, name)
}

// ExportImage implements core.ImagePorter. The archive has the image's files as one layer. A snapshot is a second one.
func (p *Provider) ExportImage(
	ctx context.Context, ref string, format core.ImageFormat, to io.Writer, progress core.ProgressFunc,
) error {
	images, err := p.openImages()
	if err != nil {
		return err
	}
	opts := image.ExportOptions{Format: format, Progress: progress}
	s, err := p.snapshotOf(ctx, ref)
	if err != nil {
		return err
	}
	if s == nil {
		return images.Export(ctx, ref, opts, to)
	}
	opts.Names, opts.Title, opts.Changed = []string{s.ID}, s.ID, s.Created
	return p.withLayer(ctx, *s, progress, func(file string) error {
		opts.Layers = []string{file}
		return images.Export(ctx, s.Root, opts, to)
	})
}

// PushImage implements core.ImagePusher. Mirrors are not used.
func (p *Provider) PushImage(
	ctx context.Context, ref, name string, progress core.ProgressFunc,
) (core.PushedImage, error) {
	images, err := p.openImages()
	if err != nil {
		return core.PushedImage{}, err
	}
	s, err := p.snapshotOf(ctx, ref)
	if err != nil {
		return core.PushedImage{}, err
	}
	opts := image.PushOptions{Registries: p.opts.Registries}
	opts.Progress, opts.Title = progress, ref
	pushed := core.PushedImage{Provider: Name}
	if s == nil {
		pushed.Name, pushed.Digest, err = images.Push(ctx, ref, name, opts)
		return pushed, err
	}
	opts.Changed = s.Created
	err = p.withLayer(ctx, *s, progress, func(file string) (err error) {
		opts.Layers = []string{file}
		pushed.Name, pushed.Digest, err = images.Push(ctx, s.Root, name, opts)
		return err
	})
	return pushed, err
}

// ImportImage implements core.ImagePorter.
func (p *Provider) ImportImage(
	ctx context.Context, file, name string, progress core.ProgressFunc,
) (core.ImageInfo, error) {
	if err := p.free(name); err != nil {
		return core.ImageInfo{}, err
	}
	images, err := p.openImages()
	if err != nil {
		return core.ImageInfo{}, err
	}
	made, err := images.Import(ctx, file, name, progress)
	if err != nil {
		return core.ImageInfo{}, err
	}
	return imageInfo(made), p.trimImages(ctx, images, made.ID)
}

// UnusedImages implements core.ImagePruner.
func (p *Provider) UnusedImages(ctx context.Context) ([]core.ImageInfo, error) {
	images, err := p.openImages()
	if err != nil {
		return nil, err
	}
	all, err := images.ByUse(ctx)
	if err != nil {
		return nil, err
	}
	var unused []core.ImageInfo
	for _, i := range all {
		users, err := p.usersOf(i.ID)
		if err != nil {
			return nil, err
		}
		if len(users) == 0 {
			unused = append(unused, imageInfo(i.Image))
		}
	}
	return unused, nil
}

// RemoveUnusedImage implements core.ImagePruner.
func (p *Provider) RemoveUnusedImage(ctx context.Context, id string) error {
	images, err := p.openImages()
	if err != nil {
		return err
	}
	return images.RemoveFree(ctx, id, func(id string) error { return p.unused(id, id) })
}

// trimImages removes images until the store has at most the configured size, the least recently used first. It keeps
// those that are in use, those that were imported or built under a name, and the image keep.
func (p *Provider) trimImages(ctx context.Context, images *image.Store, keep string) error {
	if p.opts.MaxImages <= 0 {
		return nil
	}
	all, err := images.ByUse(ctx)
	if err != nil {
		return err
	}
	var size core.Bytes
	for _, i := range all {
		size += core.Bytes(i.Size)
	}
	for _, i := range all {
		if size <= p.opts.MaxImages {
			return nil
		}
		if i.Imported || i.ID == keep {
			continue
		}
		err := images.RemoveFree(ctx, i.ID, func(id string) error { return p.unused(id, id) })
		switch {
		case err == nil || errors.Is(err, core.KindNotFound):
			size -= core.Bytes(i.Size)
		case !errors.Is(err, core.KindConflict):
			return err
		}
	}
	return nil
}
