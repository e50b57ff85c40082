package core

import (
	"context"
	"time"
)

// VolumeInfo is a volume that a provider keeps; Volume is one that is mounted.
type VolumeInfo struct {
	// Name is what Volume.Source takes.
	Name     string    `json:"name"`
	ID       string    `json:"id,omitempty"`
	Provider string    `json:"provider"`
	Created  time.Time `json:"created,omitzero"`
	// Size is 0 where it is not known.
	Size Bytes `json:"size,omitempty"`
	// Version is that of the volume's format, where the provider has several.
	Version int `json:"version,omitempty"`
}

// VolumeOptions say how a volume is made.
type VolumeOptions struct {
	// Version is that of the format; 0 leaves it to the provider. One without versions refuses others (KindUnsupported).
	Version int
}

// VolumeStore keeps volumes. Its capability is CapVolumeStore; CapVolumes says that they can be mounted.
type VolumeStore interface {
	// Volumes returns them in no order.
	Volumes(ctx context.Context) ([]VolumeInfo, error)
	// CreateVolume makes an empty one. KindConflict: there is one of that name.
	CreateVolume(ctx context.Context, name string, opts VolumeOptions) (VolumeInfo, error)
	// RemoveVolume removes one with all that is on it. KindConflict: a sandbox has it mounted.
	RemoveVolume(ctx context.Context, name string) error
}

// Volumes lists the volumes that a provider keeps; "" asks all providers.
func (s *Service) Volumes(ctx context.Context, provider string) (Inventory[VolumeInfo], error) {
	return inventory(ctx, s, provider, "volume ls", CapVolumeStore, VolumeStore.Volumes)
}

// CreateVolume makes an empty volume. provider may be "" when only one that is set up keeps volumes.
func (s *Service) CreateVolume(ctx context.Context, provider, name string, opts VolumeOptions) (made VolumeInfo, err error) {
	if opts.Version < 0 {
		return VolumeInfo{}, invalid("version", "%d is not a version", opts.Version)
	}
	var args map[string]any
	if opts.Version != 0 {
		args = map[string]any{"version": opts.Version}
	}
	err = stored(ctx, s, provider, "volume create", name, CapVolumeStore, args, func(store VolumeStore) error {
		made, err = store.CreateVolume(ctx, name, opts)
		return err
	})
	return made, err
}

// RemoveVolume removes a volume with all that is on it. provider may be "" when only one that is set up keeps volumes.
func (s *Service) RemoveVolume(ctx context.Context, provider, name string) error {
	return stored(ctx, s, provider, "volume rm", name, CapVolumeStore, nil, func(store VolumeStore) error {
		return store.RemoveVolume(ctx, name)
	})
}
