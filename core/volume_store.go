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
