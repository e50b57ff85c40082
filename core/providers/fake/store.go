package fake

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// store has a Keeper's objects besides sandboxes and snapshots.
type store struct {
	mu           sync.Mutex
	volumes      map[string]core.VolumeInfo
	secrets      map[string]core.SecretInfo
	images       map[string]core.ImageInfo
	stopped      map[string]bool // apps
	environments map[string]core.EnvironmentInfo
}

func newStore() store {
	return store{
		volumes: map[string]core.VolumeInfo{}, secrets: map[string]core.SecretInfo{}, images: map[string]core.ImageInfo{},
		stopped:      map[string]bool{},
		environments: map[string]core.EnvironmentInfo{"main": {Name: "main", Provider: "fake", Current: true}},
	}
}

// take removes an object by its name.
func take[T any](things map[string]T, what, name string) error {
	if _, there := things[name]; !there {
		return core.Errorf(core.KindNotFound, "fake.store", name, "there is no %s %q", what, name)
	}
	delete(things, name)
	return nil
}

// put stores an object under a name that must be free.
func put[T any](things map[string]T, what, name string, thing T) error {
	if _, there := things[name]; there {
		return core.Errorf(core.KindConflict, "fake.store", name, "there is a %s %q already", what, name)
	}
	things[name] = thing
	return nil
}

// storing runs do with the store locked, unless a fault occurs.
func (k *Keeper) storing(ctx context.Context, do func() error) error {
	if err := k.faults.meet(ctx, OpStore); err != nil {
		return err
	}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	return do()
}

// values lists the objects of a map.
func values[T any](ctx context.Context, k *Keeper, things map[string]T) (list []T, err error) {
	err = k.storing(ctx, func() error {
		list = slices.Collect(maps.Values(things))
		return nil
	})
	return list, err
}

// Volumes implements core.VolumeStore.
func (k *Keeper) Volumes(ctx context.Context) ([]core.VolumeInfo, error) {
	return values(ctx, k, k.volumes)
}

// CreateVolume implements core.VolumeStore.
func (k *Keeper) CreateVolume(ctx context.Context, name string, opts core.VolumeOptions) (core.VolumeInfo, error) {
	if opts.Size != 0 {
		return core.VolumeInfo{}, core.Errorf(core.KindUnsupported, "fake.volume", name, "volumes have no size here")
	}
	volume := core.VolumeInfo{
		Name: name, ID: core.NewID("vol-"), Provider: k.Name(), Created: k.Provider.opts.Now(), Version: opts.Version,
		Labels: opts.Labels,
	}
	return volume, k.storing(ctx, func() error { return put(k.volumes, "volume", name, volume) })
}

// RemoveVolume implements core.VolumeStore.
func (k *Keeper) RemoveVolume(ctx context.Context, name string) error {
	for _, b := range k.all() {
		sb := b.get()
		if sb.State.Live() && slices.ContainsFunc(sb.Spec.Volumes, func(v core.Volume) bool { return v.Source == name }) {
			return core.Errorf(core.KindConflict, "fake.volume", name, "sandbox %s has it mounted", sb.Name)
		}
	}
	return k.storing(ctx, func() error { return take(k.volumes, "volume", name) })
}

// Secrets implements core.SecretStore.
func (k *Keeper) Secrets(ctx context.Context) ([]core.SecretInfo, error) {
	return values(ctx, k, k.secrets)
}

// CreateSecret implements core.SecretStore. The values are not kept: nothing of this package needs them.
func (k *Keeper) CreateSecret(
	ctx context.Context, name string, values map[string]core.SecretValue, opts core.SecretOptions,
) (core.SecretInfo, error) {
	secret := core.SecretInfo{
		Name: name, ID: core.NewID("sec-"), Provider: k.Name(), Created: k.Provider.opts.Now(),
		Keys: slices.Sorted(maps.Keys(values)),
	}
	return secret, k.storing(ctx, func() error {
		if opts.Replace {
			delete(k.secrets, name)
		}
		return put(k.secrets, "secret", name, secret)
	})
}

// RemoveSecret implements core.SecretStore.
func (k *Keeper) RemoveSecret(ctx context.Context, name string) error {
	return k.storing(ctx, func() error { return take(k.secrets, "secret", name) })
}

// Images implements core.ImageStore. It lists the pulled images.
func (k *Keeper) Images(ctx context.Context) ([]core.ImageInfo, error) {
	return values(ctx, k, k.images)
}

// BuildImage implements core.ImageBuilder. It reads no file.
func (k *Keeper) BuildImage(
	ctx context.Context, b core.ImageBuild, progress core.ProgressFunc,
) (core.ImageInfo, error) {
	progress(core.Progress{Step: "building " + b.Name})
	image := core.ImageInfo{
		ID: "img-" + b.Name, Names: []string{b.Name}, Provider: k.Name(), Created: k.Provider.opts.Now(), Size: core.MiB,
	}
	return image, k.storing(ctx, func() error {
		k.images[b.Name] = image
		return nil
	})
}

// PullImage implements core.ImageStore. Only the images of Options exist.
func (k *Keeper) PullImage(ctx context.Context, name string, progress core.ProgressFunc) (core.ImageInfo, error) {
	if !slices.Contains(k.Provider.opts.Images, name) {
		return core.ImageInfo{}, core.Errorf(core.KindNotFound, "fake.pull", name, "there is no image %q", name)
	}
	if progress != nil {
		progress(core.Progress{Step: "pulling " + name, Done: 1, Total: 1})
	}
	image := core.ImageInfo{
		ID: "img-" + name, Names: []string{name}, Provider: k.Name(), Created: k.Provider.opts.Now(), Size: core.MiB,
	}
	return image, k.storing(ctx, func() error {
		k.images[name] = image
		return nil
	})
}

// RemoveImage implements core.ImageStore.
func (k *Keeper) RemoveImage(ctx context.Context, ref string) error {
	for _, b := range k.all() {
		if sb := b.get(); sb.State.Live() && (sb.Image == ref || "img-"+sb.Image == ref) {
			return core.Errorf(core.KindConflict, "fake.image", ref, "sandbox %s runs from it", sb.Name)
		}
	}
	return k.storing(ctx, func() error {
		for name, image := range k.images {
			if image.ID == ref {
				ref = name
			}
		}
		return take(k.images, "image", ref)
	})
}

// Apps implements core.AppStore. It lists the apps of all sandboxes that are not terminated.
func (k *Keeper) Apps(ctx context.Context) ([]core.AppInfo, error) {
	apps := map[string]core.AppInfo{}
	for _, b := range k.all() {
		if sb := b.get(); sb.App != "" {
			apps[sb.App] = core.AppInfo{Name: sb.App, ID: "app-" +
				sb.App, Provider: k.Name(), State: "deployed", Created: sb.Created}
		}
	}
	err := k.storing(ctx, func() error {
		for name := range k.stopped {
			delete(apps, name)
		}
		return nil
	})
	return slices.Collect(maps.Values(apps)), err
}

// StopApp implements core.AppStore.
func (k *Keeper) StopApp(ctx context.Context, name string) error {
	if err := k.storing(ctx, func() error { k.stopped[name] = true; return nil }); err != nil {
		return err
	}
	for _, b := range k.all() {
		if sb := b.get(); sb.App == name && sb.State.Live() {
			if err := k.Terminate(ctx, sb.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// Environments implements core.EnvironmentStore.
func (k *Keeper) Environments(ctx context.Context) ([]core.EnvironmentInfo, error) {
	return values(ctx, k, k.environments)
}

// CreateEnvironment implements core.EnvironmentStore.
func (k *Keeper) CreateEnvironment(ctx context.Context, name string) (core.EnvironmentInfo, error) {
	environment := core.EnvironmentInfo{Name: name, Provider: k.Name()}
	return environment, k.storing(ctx, func() error { return put(k.environments, "environment", name, environment) })
}

// RemoveEnvironment implements core.EnvironmentStore.
func (k *Keeper) RemoveEnvironment(ctx context.Context, name string) error {
	return k.storing(ctx, func() error { return take(k.environments, "environment", name) })
}

// PushImage implements core.ImagePusher. It sends nothing.
func (k *Keeper) PushImage(
	_ context.Context, _, name string, _ core.ProgressFunc,
) (core.PushedImage, error) {
	return core.PushedImage{Name: name, Digest: "sha256:pushed", Provider: k.Name()}, nil
}
