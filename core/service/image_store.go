package service

import (
	"context"
	"path"

	"github.com/seed-0724f904/sb/core"
)

// Images lists the images that a provider has stored; "" means all providers.
func (s Stores) Images(ctx context.Context, provider string) (Inventory[core.ImageInfo], error) {
	return inventory(ctx, s.base, provider, "image ls", core.ImageStore.Images)
}

// PullImage has a provider get an image. provider may be "" when only one that is set up keeps images.
func (s Stores) PullImage(
	ctx context.Context, provider, name string, progress core.ProgressFunc,
) (pulled core.ImageInfo, err error) {
	err = stored(ctx, s.base, provider, "image pull", name, nil, func(store core.ImageStore) error {
		pulled, err = store.PullImage(ctx, name, progress)
		return err
	})
	return pulled, err
}

// RemoveImage removes an image. provider may be "" when only one that is set up keeps images.
func (s Stores) RemoveImage(ctx context.Context, provider, ref string) error {
	return stored(ctx, s.base, provider, "image rm", ref, nil, func(store core.ImageStore) error {
		return store.RemoveImage(ctx, ref)
	})
}

// MountImage mounts an image at an absolute path in a sandbox that runs.
func (s Sandboxes) MountImage(ctx context.Context, ref, image, target string) error {
	return s.mount(ctx, "image mount", ref, target, map[string]any{"image": image, "path": target}, func(
		mounter core.ImageMounter, id string,
	) error {
		return mounter.MountImage(ctx, id, image, path.Clean(target))
	})
}

// UnmountImage removes a mount of MountImage.
func (s Sandboxes) UnmountImage(ctx context.Context, ref, target string) error {
	return s.mount(ctx, "image unmount", ref, target, map[string]any{"path": target}, func(
		mounter core.ImageMounter, id string,
	) error {
		return mounter.UnmountImage(ctx, id, path.Clean(target))
	})
}

func (s *base) mount(
	ctx context.Context, op, ref, target string, args map[string]any, do func(core.ImageMounter, string) error,
) error {
	return s.act(ctx, op, ref, args, func(sb core.Sandbox, _ core.Provider) error {
		if !path.IsAbs(target) || path.Clean(target) == "/" {
			return core.Invalid("path", "%q is not an absolute path below the root", target)
		}
		mounter, err := capable[core.ImageMounter](s, sb.Provider, op)
		if err != nil {
			return err
		}
		return do(mounter, sb.ID)
	})
}
