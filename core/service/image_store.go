package service

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"slices"

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

// InspectImage returns an image's settings, layers and users. provider may be "" when only one that is set up can.
func (s Stores) InspectImage(ctx context.Context, provider, ref string) (details core.ImageDetails, err error) {
	err = stored(ctx, s.base, provider, "image inspect", ref, nil, func(editor core.ImageEditor) error {
		details, err = editor.InspectImage(ctx, ref)
		return err
	})
	return details, err
}

// ImageCommand returns the entrypoint and the command of a sandbox's image, which "docker run" starts. KindUsage: the
// image has neither. KindUnsupported: the provider cannot read them.
func (s Sandboxes) ImageCommand(ctx context.Context, sandbox core.Sandbox) ([]string, error) {
	const hint = "name a command: sb run [flags] -- COMMAND"
	editor, err := capable[core.ImageEditor](s.base, sandbox.Provider, "run")
	if err != nil {
		return nil, core.Errorf(core.KindUnsupported, "run", sandbox.Name,
			"%s does not show the command of an image", sandbox.Provider).WithHint(hint)
	}
	details, err := editor.InspectImage(ctx, sandbox.ImageID)
	if err != nil {
		return nil, core.Wrap("run", sandbox.Name, err)
	}
	argv := details.Command
	// Docker's images have an empty word in the place of an entrypoint that was removed.
	if entrypoint := details.Entrypoint; len(entrypoint) > 0 && entrypoint[0] != "" {
		argv = slices.Concat(entrypoint, details.Command)
	}
	if len(argv) == 0 {
		return nil, core.Errorf(core.KindUsage, "run", sandbox.Name, "the image has neither an entrypoint nor a command").
			WithHint(hint)
	}
	return argv, nil
}

// TagImage gives an image another name. provider may be "" when only one that is set up can.
func (s Stores) TagImage(ctx context.Context, provider, ref, name string) error {
	args := map[string]any{"name": name}
	return stored(ctx, s.base, provider, "image tag", ref, args, func(editor core.ImageEditor) error {
		return editor.TagImage(ctx, ref, name)
	})
}

// ExportImage writes an image as a tar archive. provider may be "" when only one that is set up can.
func (s Stores) ExportImage(
	ctx context.Context, provider, ref string, format core.ImageFormat, to io.Writer, progress core.ProgressFunc,
) error {
	if format != core.ImageOCI && format != core.ImageDocker {
		return core.Invalid("format", "%q is not a format: use %s or %s", format, core.ImageOCI, core.ImageDocker)
	}
	args := map[string]any{"format": format}
	return stored(ctx, s.base, provider, "image export", ref, args, func(porter core.ImagePorter) error {
		return porter.ExportImage(ctx, ref, format, to, progress)
	})
}

// ImportImage stores the image in a file or an OCI directory. provider may be "" when only one that is set up can.
func (s Stores) ImportImage(
	ctx context.Context, provider, file, name string, progress core.ProgressFunc,
) (made core.ImageInfo, err error) {
	args := map[string]any{"name": name}
	err = stored(ctx, s.base, provider, "image import", file, args, func(porter core.ImagePorter) error {
		made, err = porter.ImportImage(ctx, file, name, progress)
		return err
	})
	return made, err
}

// PushImage sends an image to the registry in name; "" is the image's own name. provider may be "" when only one that
// is set up can.
func (s Stores) PushImage(
	ctx context.Context, provider, ref, name string, progress core.ProgressFunc,
) (pushed core.PushedImage, err error) {
	name = cmp.Or(name, ref)
	args := map[string]any{"name": name}
	err = stored(ctx, s.base, provider, "image push", ref, args, func(pusher core.ImagePusher) error {
		pushed, err = pusher.PushImage(ctx, ref, name, progress)
		return err
	})
	return pushed, err
}

// ImagePruneReport lists the images that PruneImages removed or, in a dry run, would remove.
type ImagePruneReport struct {
	DryRun bool             `json:"dry_run"`
	Images []core.ImageInfo `json:"images"`
	// Size is the sum of the images' sizes.
	Size     core.Bytes             `json:"size"`
	Failures []core.ProviderFailure `json:"failures,omitempty"`
}

// PruneImages removes the images that nothing uses. An image that is used since it was listed stays. provider may be ""
// when only one that is set up can.
func (s Stores) PruneImages(ctx context.Context, provider string, dryRun bool) (report ImagePruneReport, err error) {
	const op = "image prune"
	report = ImagePruneReport{DryRun: dryRun, Images: []core.ImageInfo{}}
	if err := s.shared(op); err != nil {
		return report, err
	}
	if provider, err = s.keeper(ctx, provider, op, core.CapImagePrune); err != nil {
		return report, err
	}
	pruner, err := capable[core.ImagePruner](s.base, provider, op)
	if err != nil {
		return report, err
	}
	unused, err := pruner.UnusedImages(ctx)
	if err != nil {
		return report, core.Wrap(op, "", err)
	}
	for _, image := range unused {
		if !dryRun {
			err := stored(ctx, s.base, provider, op, image.ID, nil, func(pruner core.ImagePruner) error {
				return pruner.RemoveUnusedImage(ctx, image.ID)
			})
			switch {
			case errors.Is(err, core.KindConflict), errors.Is(err, core.KindNotFound):
				continue
			case err != nil:
				report.Failures = append(report.Failures, failure(provider, err))
				continue
			}
		}
		report.Images = append(report.Images, image)
		report.Size += image.Size
	}
	return report, ctx.Err()
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
