package docker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	imagetype "github.com/moby/moby/api/types/image"
	volumetype "github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
	"github.com/seed-0724f904/sb/core/providers/docker/image"
)

var (
	_ core.VolumeStore   = (*Provider)(nil)
	_ core.ImageStore    = (*Provider)(nil)
	_ core.SnapshotStore = (*Provider)(nil)
)

// Volumes implements core.VolumeStore. It lists only the volumes that sb made.
func (p *Provider) Volumes(ctx context.Context) ([]core.VolumeInfo, error) {
	e, err := p.connect(ctx)
	if errors.Is(err, engine.ErrNone) {
		return []core.VolumeInfo{}, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.Client.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).
		Add("label", labelVersion+"="+version)})
	if err != nil {
		return nil, engine.Classify(ctx, "volumes", "", err)
	}
	list := make([]core.VolumeInfo, 0, len(found.Items))
	for _, v := range found.Items {
		list = append(list, volumeInfo(v))
	}
	return list, nil
}

// volumeInfo returns an engine's volume, with the labels that sb did not add itself.
func volumeInfo(v volumetype.Volume) core.VolumeInfo {
	labels := maps.Clone(v.Labels)
	delete(labels, labelVersion)
	return core.VolumeInfo{Name: v.Name, Provider: Name, Created: parseTime(v.CreatedAt), Labels: labels}
}

// CreateVolume implements core.VolumeStore.
func (p *Provider) CreateVolume(ctx context.Context, name string, opts core.VolumeOptions) (core.VolumeInfo, error) {
	if opts.Version != 0 {
		return core.VolumeInfo{}, core.Errorf(
			core.KindUnsupported, "docker.volume", name, "an engine's volumes have no versions",
		)
	}
	if err := notOurs(name); err != nil {
		return core.VolumeInfo{}, err
	}
	e, err := p.connect(ctx)
	if err != nil {
		return core.VolumeInfo{}, err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	_, err = e.Client.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	switch {
	case err == nil:
		return core.VolumeInfo{}, core.Errorf(
			core.KindConflict, "docker.volume", name, "the engine has a volume of that name",
		).WithHint("choose another name")
	case !errdefs.IsNotFound(err):
		return core.VolumeInfo{}, engine.Classify(ctx, "volume", name, err)
	}
	request := client.VolumeCreateOptions{Name: name, Labels: map[string]string{labelVersion: version}}
	maps.Copy(request.Labels, opts.Labels)
	request.Labels[labelVersion] = version
	if opts.Size > 0 {
		request.DriverOpts = sizeOption(e.Podman, opts.Size)
	}
	made, err := e.Client.VolumeCreate(ctx, request)
	err = engine.Classify(ctx, "volume", name, err)
	if err != nil && opts.Size > 0 && !errors.Is(err, core.KindUnavailable) && ctx.Err() == nil {
		return core.VolumeInfo{}, core.Errorf(
			core.KindUnsupported, "docker.volume", name, "the engine cannot limit the size of a volume: %w", err,
		).WithHint("its directory must be on XFS, mounted with the option pquota; or leave out the size")
	}
	if err != nil {
		return core.VolumeInfo{}, err
	}
	return volumeInfo(made.Volume), nil
}

// sizeOption limits the size of a volume. An engine without project quotas refuses it. Podman enforces only the option
// of a mount; it accepts the other one and does nothing.
func sizeOption(podman bool, size core.Bytes) map[string]string {
	bytes := strconv.FormatInt(int64(size), 10)
	if podman {
		return map[string]string{"o": "size=" + bytes}
	}
	return map[string]string{"size": bytes}
}

// RemoveVolume implements core.VolumeStore.
func (p *Provider) RemoveVolume(ctx context.Context, name string) error {
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	found, err := e.Client.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err == nil && found.Volume.Labels[labelVersion] == "" {
		return core.Errorf(core.KindNotFound, "docker.volume", name, "sb created no volume of that name").
			WithHint("sb volume ls lists them")
	}
	if err == nil {
		_, err = e.Client.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	}
	if errdefs.IsNotFound(err) {
		return core.Errorf(core.KindNotFound, "docker.volume", name, "there is no volume %q", name).
			WithHint("sb volume ls lists them")
	}
	return engine.Classify(ctx, "volume", name, err)
}

// images lists the engine's images with the given labels.
func (p *Provider) images(ctx context.Context, labels ...string) ([]imagetype.Summary, error) {
	e, err := p.connect(ctx)
	if errors.Is(err, engine.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	filters := make(client.Filters)
	if len(labels) > 0 {
		filters.Add("label", labels...)
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.Client.ImageList(ctx, client.ImageListOptions{Filters: filters})
	return found.Items, engine.Classify(ctx, "images", "", err)
}

// tags returns an image's names. The engine reports a placeholder for an image without a name.
func tags(i imagetype.Summary) []string {
	names := slices.DeleteFunc(slices.Clone(i.RepoTags), func(tag string) bool { return tag == "<none>:<none>" })
	for n, name := range names {
		names[n] = familiar(name)
	}
	return names
}

// familiar returns an image's name as Docker shows it: Podman has "docker.io/me/dev:v1" where Docker shows "me/dev:v1".
// A string that is not a valid name is returned as it is.
func familiar(name string) string {
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return name
	}
	return reference.FamiliarString(ref)
}

// Images implements core.ImageStore. It lists all of the engine's images, not only those that sb pulled or built.
func (p *Provider) Images(ctx context.Context) ([]core.ImageInfo, error) {
	found, err := p.images(ctx)
	list := make([]core.ImageInfo, 0, len(found))
	for _, i := range found {
		list = append(list, core.ImageInfo{ID: i.ID, Names: tags(i), Provider: Name, Created: time.Unix(i.Created, 0).
			UTC(), Size: core.Bytes(i.Size)})
	}
	return list, err
}

// PullImage implements core.ImageStore. It does not pull an image "localhost/…": that was made here and is in no
// registry.
func (p *Provider) PullImage(ctx context.Context, name string, progress core.ProgressFunc) (core.ImageInfo, error) {
	e, err := p.connect(ctx)
	if err != nil {
		return core.ImageInfo{}, err
	}
	if progress == nil {
		progress = func(core.Progress) {}
	}
	if _, err := reference.ParseNormalizedNamed(name); err != nil {
		return core.ImageInfo{}, core.Errorf(core.KindUsage, "docker.image", name, "invalid image name: %w", err)
	}
	if !image.MadeHere(name) {
		if _, err := p.store(e).Have(ctx, name, core.PullAlways, progress); err != nil {
			return core.ImageInfo{}, err
		}
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.Client.ImageInspect(ctx, name)
	if err != nil {
		return core.ImageInfo{}, engine.Classify(ctx, "image", name, err)
	}
	return core.ImageInfo{
		ID: found.ID, Names: found.RepoTags, Provider: Name, Created: parseTime(found.Created), Size: core.Bytes(found.Size),
	}, nil
}

// BuildImage implements core.ImageBuilder. The engine has its own network policy and limits for builds.
func (p *Provider) BuildImage(
	ctx context.Context, b core.ImageBuild, progress core.ProgressFunc,
) (core.ImageInfo, error) {
	if _, err := reference.ParseNormalizedNamed(b.Name); err != nil {
		return core.ImageInfo{}, core.Errorf(core.KindUsage, "docker.build", b.Name, "it is no image's name: %w", err)
	}
	e, err := p.connect(ctx)
	if err != nil {
		return core.ImageInfo{}, err
	}
	id, err := p.store(e).Build(ctx, b, progress)
	if err != nil {
		return core.ImageInfo{}, err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.Client.ImageInspect(ctx, id)
	if err != nil {
		return core.ImageInfo{}, engine.Classify(ctx, "image", b.Name, err)
	}
	return core.ImageInfo{
		ID: found.ID, Names: found.RepoTags, Provider: Name, Created: parseTime(found.Created), Size: core.Bytes(found.Size),
	}, nil
}

// RemoveImage implements core.ImageStore. An image that any container uses stays, even if the container does not belong
// to sb.
func (p *Provider) RemoveImage(ctx context.Context, ref string) error {
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	_, err = e.Client.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
	if errdefs.IsNotFound(err) {
		return core.Errorf(core.KindNotFound, "docker.image", ref, "there is no image %q", ref).
			WithHint("sb image ls lists them")
	}
	return engine.Classify(ctx, "image", ref, err)
}

// Snapshots implements core.SnapshotStore: the images that sb committed.
func (p *Provider) Snapshots(ctx context.Context) ([]core.Snapshot, error) {
	found, err := p.images(ctx, labelSnapshot)
	list := make([]core.Snapshot, 0, len(found))
	for _, i := range found {
		if snapshot, ok := snapshotOf(i); ok {
			list = append(list, snapshot)
		}
	}
	return list, err
}

// snapshotOf returns the snapshot that an image's labels describe; ok is false for an image that was only built from a
// snapshot.
func snapshotOf(i imagetype.Summary) (snapshot core.Snapshot, ok bool) {
	names := tags(i)
	return core.Snapshot{
		ID: cmp.Or(cmp.Or(names...), i.ID), Provider: Name, Sandbox: i.Labels[labelSnapshot],
		Created: time.Unix(i.Created, 0).UTC(), Size: core.Bytes(i.Size),
	}, i.Labels[labelSnapshot] != "" && i.Labels[labelBuild] == ""
}

// RemoveSnapshot implements core.SnapshotStore.
func (p *Provider) RemoveSnapshot(ctx context.Context, id string) error {
	found, err := p.images(ctx, labelSnapshot)
	if err != nil {
		return err
	}
	for _, i := range found {
		if _, ok := snapshotOf(i); !ok || i.ID != id && !slices.Contains(tags(i), familiar(id)) {
			continue
		}
		return p.RemoveImage(ctx, id)
	}
	return core.Errorf(core.KindNotFound, "docker.snapshot", id, "there is no snapshot %q", id).
		WithHint("sb snapshot ls lists them")
}
