//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

var _ core.ImageStore = (*Provider)(nil)

// rootOf returns the image for the root directory of a new sandbox, and the image's id. It downloads an image that is
// not stored. A snapshot or a checkpoint records its image. For this machine's programs both results are empty.
func (p *Provider) rootOf(
	ctx context.Context, spec core.Spec, progress core.ProgressFunc,
) (id string, root *socket.Root, err error) {
	switch {
	case spec.Snapshot != "":
		var file snapshotFile
		if core.ValidateName("snapshot", spec.Snapshot) != nil {
			return "", nil, noSnapshot(spec.Snapshot)
		}
		if _, err := p.store.Snapshots().Read(spec.Snapshot, &file); err != nil {
			return "", nil, nil //nolint:nilerr // snapshotFiles returns the error
		}
		root, err := p.storedRoot(ctx, "launch", spec.Snapshot, file.Root)
		return file.Root, root, err
	case spec.Checkpoint != "":
		var file keptFile
		if core.ValidateName("checkpoint", spec.Checkpoint) != nil {
			return "", nil, noCheckpoint(spec.Checkpoint)
		}
		if _, err := p.store.Checkpoints().Read(spec.Checkpoint, &file); err != nil {
			return "", nil, nil //nolint:nilerr // fromCheckpoint returns the error
		}
		root, err := p.storedRoot(ctx, "launch", spec.Checkpoint, file.Root)
		return file.Root, root, err
	case spec.Image == "" || spec.Image == HostImage:
		return "", nil, nil
	case p.opts.HostOnly:
		return "", nil, core.Errorf(
			core.KindUnsupported, "local.launch", spec.Image, "only the image %q is offered", HostImage,
		)
	}
	pulled, err := p.pull(ctx, spec.Image, progress)
	if err != nil {
		return "", nil, err
	}
	return pulled.ID, rootFrom(pulled), nil
}

// pull returns an image. It downloads an image that is not stored.
func (p *Provider) pull(ctx context.Context, ref string, progress core.ProgressFunc) (image.Image, error) {
	images, err := p.openImages()
	if err != nil {
		return image.Image{}, err
	}
	return images.Pull(ctx, ref, image.PullOptions{Policy: image.PullMissing, Progress: progress})
}

func (p *Provider) openImages() (*image.Store, error) {
	images, err := image.Open(p.store.ImagesDir())
	return images, stateError("image", err)
}

// storedRoot returns the image of an existing sandbox, snapshot or checkpoint. KindConflict: it is no longer stored.
func (p *Provider) storedRoot(ctx context.Context, op, name, id string) (*socket.Root, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // this machine's programs
	}
	images, err := p.openImages()
	if err != nil {
		return nil, err
	}
	found, err := images.Get(ctx, id)
	if errors.Is(err, core.KindNotFound) {
		return nil, core.Errorf(core.KindConflict, "local."+op, name, "its image %s is not stored any more", id).
			WithHint("download it again by its digest: sb image pull NAME@%s", id)
	}
	if err != nil {
		return nil, err
	}
	return rootFrom(found), nil
}

func rootFrom(i image.Image) *socket.Root {
	return &socket.Root{Path: i.Path, Env: i.Config.Env, User: i.Config.User, Workdir: i.Config.WorkingDir}
}

// Images implements core.ImageStore.
func (p *Provider) Images(ctx context.Context) ([]core.ImageInfo, error) {
	images, err := p.openImages()
	if err != nil {
		return nil, err
	}
	stored, err := images.List(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]core.ImageInfo, 0, len(stored))
	for _, i := range stored {
		list = append(list, imageInfo(i))
	}
	return list, nil
}

func imageInfo(i image.Image) core.ImageInfo {
	return core.ImageInfo{ID: i.ID, Names: i.Refs, Provider: Name, Created: i.Created, Size: core.Bytes(i.Size)}
}

// PullImage implements core.ImageStore. This machine's programs need no download.
func (p *Provider) PullImage(ctx context.Context, name string, progress core.ProgressFunc) (core.ImageInfo, error) {
	if name == HostImage {
		return core.ImageInfo{ID: HostImage, Names: []string{HostImage}, Provider: Name}, nil
	}
	images, err := p.openImages()
	if err != nil {
		return core.ImageInfo{}, err
	}
	pulled, err := images.Pull(ctx, name, image.PullOptions{Policy: image.PullAlways, Progress: progress})
	return imageInfo(pulled), err
}

// RemoveImage implements core.ImageStore. Sandboxes, snapshots and checkpoints use images.
func (p *Provider) RemoveImage(ctx context.Context, ref string) error {
	images, err := p.openImages()
	if err != nil {
		return err
	}
	found, err := images.Get(ctx, ref)
	if err != nil {
		return err
	}
	if len(found.Refs) < 2 || ref == found.ID {
		if err := p.unused(ref, found.ID); err != nil {
			return err
		}
	}
	return images.Remove(ctx, ref)
}

// unused returns KindConflict if the image with the id is in use. ref is the user's name of the image.
func (p *Provider) unused(ref, id string) error {
	inUse := func(what, name, remove string) error {
		return core.Errorf(core.KindConflict, "local.image", ref, "the %s %s uses the image", what, name).
			WithHint("remove it first: %s %s", remove, name)
	}
	ids, err := p.store.IDs()
	if err != nil {
		return stateError("image", err)
	}
	for _, sandbox := range ids {
		root, err := p.store.Root(sandbox)
		if err != nil || root != id {
			continue
		}
		sb, err := p.read(sandbox)
		if err == nil && (running(sb.State) || sb.State == core.StateStopped) {
			return inUse("sandbox", sb.Name, "sb terminate")
		}
	}
	for _, shelf := range []struct {
		shelf        *store.Shelf
		what, remove string
	}{
		{p.store.Snapshots(), "snapshot", "sb snapshot rm"}, {p.store.Checkpoints(), "checkpoint", "sb checkpoint rm"},
	} {
		names, err := shelf.shelf.Names()
		if err != nil {
			return stateError("image", err)
		}
		for _, name := range names {
			var file struct {
				Root string `json:"root"`
			}
			_, err := shelf.shelf.Read(name, &file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !store.IsDamage(err) {
				return stateError("image", err)
			}
			if file.Root == id {
				return inUse(shelf.what, name, shelf.remove)
			}
		}
	}
	return nil
}
