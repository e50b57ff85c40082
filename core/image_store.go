package core

import (
	"context"
	"path"
	"time"
)

// ImageInfo is an image that a provider has at hand.
type ImageInfo struct {
	ID string `json:"id"`
	// Names are those that Spec.Image takes; an image that was only built may have none.
	Names    []string  `json:"names,omitempty"`
	Provider string    `json:"provider"`
	Created  time.Time `json:"created,omitzero"`
	// Size is 0 where it is not known.
	Size Bytes `json:"size,omitempty"`
}

// ImageStore has images at hand. Its capability is CapImageStore; CapImages says that any other can be launched from, too.
type ImageStore interface {
	// Images returns them in no order.
	Images(ctx context.Context) ([]ImageInfo, error)
	// PullImage gets an image, so that a launch from it does not wait for that.
	PullImage(ctx context.Context, name string, progress ProgressFunc) (ImageInfo, error)
	// RemoveImage removes one by its id or one of its names. KindConflict: a sandbox runs from it.
	RemoveImage(ctx context.Context, ref string) error
}

// ImageMounter puts an image into a sandbox that runs. Its capability is CapImageMount.
type ImageMounter interface {
	// MountImage mounts an image, such as a snapshot of a directory, at an absolute path.
	MountImage(ctx context.Context, id, image, target string) error
	// UnmountImage takes what was mounted there away.
	UnmountImage(ctx context.Context, id, target string) error
}

// Images lists the images that a provider has at hand; "" asks all providers.
func (s *Service) Images(ctx context.Context, provider string) (Inventory[ImageInfo], error) {
	return inventory(ctx, s, provider, "image ls", CapImageStore, ImageStore.Images)
}

// PullImage has a provider get an image. provider may be "" when only one that is set up keeps images.
func (s *Service) PullImage(ctx context.Context, provider, name string, progress ProgressFunc) (pulled ImageInfo, err error) {
	err = stored(ctx, s, provider, "image pull", name, CapImageStore, nil, func(store ImageStore) error {
		pulled, err = store.PullImage(ctx, name, progress)
		return err
	})
	return pulled, err
}

// RemoveImage removes an image. provider may be "" when only one that is set up keeps images.
func (s *Service) RemoveImage(ctx context.Context, provider, ref string) error {
	return stored(ctx, s, provider, "image rm", ref, CapImageStore, nil, func(store ImageStore) error {
		return store.RemoveImage(ctx, ref)
	})
}

// MountImage mounts an image at an absolute path in a sandbox that runs.
func (s *Service) MountImage(ctx context.Context, ref, image, target string) error {
	return s.mount(ctx, "image mount", ref, target, map[string]any{"image": image, "path": target}, func(mounter ImageMounter, id string) error {
		return mounter.MountImage(ctx, id, image, path.Clean(target))
	})
}

// UnmountImage takes away what MountImage has mounted.
func (s *Service) UnmountImage(ctx context.Context, ref, target string) error {
	return s.mount(ctx, "image unmount", ref, target, map[string]any{"path": target}, func(mounter ImageMounter, id string) error {
		return mounter.UnmountImage(ctx, id, path.Clean(target))
	})
}

func (s *Service) mount(ctx context.Context, op, ref, target string, args map[string]any, do func(ImageMounter, string) error) error {
	return s.act(ctx, op, ref, args, func(sb Sandbox, _ Provider) error {
		if !path.IsAbs(target) || path.Clean(target) == "/" {
			return invalid("path", "%q is not an absolute path below the root", target)
		}
		mounter, err := capable[ImageMounter](s, sb.Provider, op, CapImageMount)
		if err != nil {
			return err
		}
		return do(mounter, sb.ID)
	})
}
