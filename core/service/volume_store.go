package service

import (
	"context"

	"github.com/seed-0724f904/sb/core"
)

// Volumes lists the volumes that a provider keeps; "" means all providers.
func (s Stores) Volumes(ctx context.Context, provider string) (Inventory[core.VolumeInfo], error) {
	return inventory(ctx, s.base, provider, "volume ls", core.VolumeStore.Volumes)
}

// CreateVolume makes an empty volume. provider may be "" when only one that is set up keeps volumes.
func (s Stores) CreateVolume(
	ctx context.Context, provider, name string, opts core.VolumeOptions,
) (made core.VolumeInfo, err error) {
	if opts.Version < 0 {
		return core.VolumeInfo{}, core.Invalid("version", "%d is not a version", opts.Version)
	}
	var args map[string]any
	if opts.Version != 0 {
		args = map[string]any{"version": opts.Version}
	}
	err = stored(ctx, s.base, provider, "volume create", name, args, func(store core.VolumeStore) error {
		made, err = store.CreateVolume(ctx, name, opts)
		return err
	})
	return made, err
}

// RemoveVolume removes a volume with all that is on it. provider may be "" when only one that is set up keeps volumes.
func (s Stores) RemoveVolume(ctx context.Context, provider, name string) error {
	return stored(ctx, s.base, provider, "volume rm", name, nil, func(store core.VolumeStore) error {
		return store.RemoveVolume(ctx, name)
	})
}
