//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

var _ core.ImageStore = (*Provider)(nil)

// heldRoot is the root directory of a sandbox that is about to start. The zero value is this machine's programs.
type heldRoot struct {
	id   string
	root *socket.Root
	hold func()
	// files is the directory of the saved files over the root; "" is none.
	files string
}

// release lets others remove the image. By then the sandbox's lease names it.
func (h heldRoot) release() {
	if h.hold != nil {
		h.hold()
	}
}

// rootOf returns the image for the root directory of a new sandbox. It downloads the image if the policy
// of spec requires it. A snapshot or a checkpoint records its image. The caller releases the result.
func (p *Provider) rootOf(ctx context.Context, spec core.Spec, progress core.ProgressFunc) (heldRoot, error) {
	if err := checkPackages(spec); err != nil {
		return heldRoot{}, err
	}
	switch {
	case spec.Snapshot != "":
		var file snapshotFile
		if core.ValidateName("snapshot", spec.Snapshot) != nil {
			return heldRoot{}, noSnapshot(spec.Snapshot)
		}
		if _, err := p.store.Snapshots().Read(spec.Snapshot, &file); err != nil {
			return heldRoot{}, nil //nolint:nilerr // snapshotFiles returns the error
		}
		return p.storedRoot(ctx, "launch", spec.Snapshot, file.Root)
	case spec.Checkpoint != "":
		var file keptFile
		if core.ValidateName("checkpoint", spec.Checkpoint) != nil {
			return heldRoot{}, noCheckpoint(spec.Checkpoint)
		}
		if _, err := p.store.Checkpoints().Read(spec.Checkpoint, &file); err != nil {
			return heldRoot{}, nil //nolint:nilerr // fromCheckpoint returns the error
		}
		return p.storedRoot(ctx, "launch", spec.Checkpoint, file.Root)
	case onHost(spec):
		return heldRoot{}, nil
	case p.opts.HostOnly:
		return heldRoot{}, core.Errorf(
			core.KindUnsupported, "local.launch", spec.Image, "only the image %q is offered", HostImage,
		)
	}
	if spec.Dockerfile == "" && spec.Python == "" && len(spec.Apt)+len(spec.Pip) == 0 {
		if s, err := p.snapshotOf(ctx, spec.Image); s != nil || err != nil {
			return p.snapshotRoot(ctx, s, err)
		}
	}
	return p.heldImage(ctx, func() (image.Image, error) { return p.made(ctx, spec, progress) })
}

// snapshotRoot returns the image of a snapshot with the snapshot's files over it.
func (p *Provider) snapshotRoot(ctx context.Context, s *snapshotFile, err error) (heldRoot, error) {
	if err != nil {
		return heldRoot{}, err
	}
	root, err := p.storedRoot(ctx, "launch", s.ID, s.Root)
	if err != nil {
		return heldRoot{}, err
	}
	if root.files, err = p.snapshotFiles(s.ID); err != nil {
		root.release()
		return heldRoot{}, err
	}
	return root, nil
}

// heldImage returns an image that get makes or pulls.
func (p *Provider) heldImage(ctx context.Context, get func() (image.Image, error)) (heldRoot, error) {
	images, err := p.openImages()
	if err != nil {
		return heldRoot{}, err
	}
	for {
		pulled, err := get()
		if err != nil {
			return heldRoot{}, err
		}
		hold, err := images.Hold(ctx, pulled.ID)
		if errors.Is(err, core.KindNotFound) {
			continue // removed between the two
		}
		if err != nil {
			return heldRoot{}, err
		}
		if err := p.trimImages(ctx, images, pulled.ID); err != nil {
			hold()
			return heldRoot{}, err
		}
		return heldRoot{id: pulled.ID, root: rootFrom(pulled), hold: hold}, nil
	}
}

func (p *Provider) pullOptions(policy core.PullPolicy, progress core.ProgressFunc) image.PullOptions {
	return image.PullOptions{
		Policy: policy, Progress: progress, Registries: p.opts.Registries, Engine: p.opts.Engine,
	}
}

// pull returns an image, after a download if the policy requires one. A snapshot needs none.
func (p *Provider) pull(
	ctx context.Context, ref string, policy core.PullPolicy, progress core.ProgressFunc,
) (image.Image, error) {
	if s, err := p.snapshotOf(ctx, ref); err != nil {
		return image.Image{}, err
	} else if s != nil {
		return p.flat(ctx, *s, "", progress)
	}
	images, err := p.openImages()
	if err != nil {
		return image.Image{}, err
	}
	return images.Pull(ctx, ref, p.pullOptions(policy, progress))
}

func (p *Provider) openImages() (*image.Store, error) {
	images, err := image.Open(p.store.ImagesDir())
	return images, stateError("image", err)
}

// storedRoot returns the image of an existing sandbox, snapshot or checkpoint. The caller releases the result.
// KindConflict: it is no longer stored.
func (p *Provider) storedRoot(ctx context.Context, op, name, id string) (heldRoot, error) {
	if id == "" {
		return heldRoot{}, nil
	}
	images, err := p.openImages()
	if err != nil {
		return heldRoot{}, err
	}
	hold, err := images.Hold(ctx, id)
	if errors.Is(err, core.KindNotFound) {
		return heldRoot{}, lostImage(op, name, id)
	}
	if err != nil {
		return heldRoot{}, err
	}
	found, err := images.Get(ctx, id)
	if err != nil {
		hold()
		return heldRoot{}, err
	}
	return heldRoot{id: id, root: rootFrom(found), hold: hold}, nil
}

// lostImage returns the error for an image that a sandbox, snapshot or checkpoint needs.
func lostImage(op, name, id string) error {
	return core.Errorf(core.KindConflict, "local."+op, name, "its image %s is no longer stored", id).
		WithHint("download it again by its digest: sb image pull NAME@%s", id)
}

// holdImage keeps an image that may be lost already. The caller calls release.
func (p *Provider) holdImage(ctx context.Context, id string) (release func(), err error) {
	images, err := p.openImages()
	if err != nil || id == "" {
		return func() {}, err
	}
	release, err = images.Hold(ctx, id)
	if errors.Is(err, core.KindNotFound) {
		return func() {}, nil
	}
	return release, err
}

func rootFrom(i image.Image) *socket.Root {
	return &socket.Root{
		Path: i.Path, Env: i.Config.Env, User: i.Config.User, Workdir: i.Config.WorkingDir, StopSignal: i.Config.StopSignal,
	}
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
	err = p.snapshotImages(func(id string, s snapshotFile) bool {
		info := p.snapshotInfo(ctx, images, id, s)
		// A snapshot with another name is also an image of the store.
		if same := slices.IndexFunc(list, func(i core.ImageInfo) bool { return i.ID == id }); same >= 0 {
			info.Names = append(info.Names, list[same].Names...)
			list[same] = info
		} else {
			list = append(list, info)
		}
		return ctx.Err() == nil
	})
	return list, errors.Join(err, ctx.Err())
}

func imageInfo(i image.Image) core.ImageInfo {
	info := core.ImageInfo{ID: i.ID, Names: i.Refs, Provider: Name, Created: i.Created, Size: core.Bytes(i.Size)}
	if i.Damage != nil {
		info.Note = i.Damage.Error() + "; " + core.HintOf(i.Damage)
	}
	return info
}

// PullImage implements core.ImageStore. This machine's programs need no download.
func (p *Provider) PullImage(ctx context.Context, name string, progress core.ProgressFunc) (core.ImageInfo, error) {
	if name == HostImage {
		return core.ImageInfo{ID: HostImage, Names: []string{HostImage}, Provider: Name}, nil
	}
	if err := p.free(name); err != nil {
		return core.ImageInfo{}, err
	}
	images, err := p.openImages()
	if err != nil {
		return core.ImageInfo{}, err
	}
	opts := p.pullOptions(core.PullAlways, progress)
	opts.Verify = true
	pulled, err := images.Pull(ctx, name, opts)
	if err != nil {
		return core.ImageInfo{}, err
	}
	return imageInfo(pulled), p.trimImages(ctx, images, pulled.ID)
}

// RemoveImage implements core.ImageStore. Sandboxes, snapshots and checkpoints use images. A snapshot over an image can
// be removed as an image, too.
func (p *Provider) RemoveImage(ctx context.Context, ref string) error {
	if s, err := p.snapshotOf(ctx, ref); err != nil && !errors.Is(err, core.KindUnsupported) {
		return err
	} else if s != nil {
		return p.RemoveSnapshot(ctx, s.ID)
	}
	images, err := p.openImages()
	if err != nil {
		return err
	}
	return images.Remove(ctx, ref, func(id string) error { return p.unused(ref, id) })
}

// unused returns KindConflict if the image with the id is in use. ref is the user's name of the image.
func (p *Provider) unused(ref, id string) error {
	users, err := p.usersOf(id)
	if err != nil || len(users) == 0 {
		return err
	}
	u := users[0]
	return core.Errorf(core.KindConflict, "local.image", ref, "the %s %s uses the image", u.kind, u.name).
		WithHint("remove it first: %s %s", u.remove, u.name)
}

// imageUser is a sandbox, snapshot or checkpoint that needs an image. remove is the command that removes it.
type imageUser struct{ kind, name, remove string }

// usersOf returns everything that needs an image.
func (p *Provider) usersOf(id string) ([]imageUser, error) {
	ids, err := p.store.IDs()
	if err != nil {
		return nil, stateError("image", err)
	}
	var users []imageUser
	for _, sandbox := range ids {
		root, err := p.store.Root(sandbox)
		if err != nil || root != id {
			continue
		}
		sb, err := p.read(sandbox)
		if err == nil && (running(sb.State) || sb.State == core.StateStopped) {
			users = append(users, imageUser{"sandbox", sb.Name, "sb terminate"})
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
			return nil, stateError("image", err)
		}
		for _, name := range names {
			var file struct {
				Root string `json:"root"`
			}
			_, err := shelf.shelf.Read(name, &file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !store.IsDamage(err) {
				return nil, stateError("image", err)
			}
			if file.Root == id {
				users = append(users, imageUser{shelf.what, name, shelf.remove})
			}
		}
	}
	return users, nil
}
