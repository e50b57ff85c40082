package core

import (
	"context"
	"time"
)

// VolumeInfo is a volume that a provider stores. Volume is the mount of one.
type VolumeInfo struct {
	// Name is the value for Volume.Source.
	Name     string    `json:"name"`
	ID       string    `json:"id,omitempty"`
	Provider string    `json:"provider"`
	Created  time.Time `json:"created,omitzero"`
	// Size is 0 if it is unknown.
	Size Bytes `json:"size,omitempty"`
	// Version is the version of the volume's format, where the provider has several.
	Version int `json:"version,omitempty"`
	// Labels are the labels of its creation.
	Labels map[string]string `json:"labels,omitempty"`
}

// VolumeOptions are the options of VolumeStore.CreateVolume.
type VolumeOptions struct {
	// Version is the version of the format; 0 means the provider's default. A provider without versions rejects others
	// (KindUnsupported).
	Version int
	// Size bounds the files of the volume; 0 is no limit. A provider that cannot enforce it rejects it
	// (KindUnsupported).
	Size Bytes
	// Labels are stored with the volume. A provider that stores none rejects them (KindUnsupported).
	Labels map[string]string
}

// VolumeStore manages volumes. Its capability is CapVolumeStore. CapVolumes means that sandboxes can mount them.
type VolumeStore interface {
	// Volumes returns the volumes in no order.
	Volumes(ctx context.Context) ([]VolumeInfo, error)
	// CreateVolume creates an empty volume. KindConflict: the name is taken.
	CreateVolume(ctx context.Context, name string, opts VolumeOptions) (VolumeInfo, error)
	// RemoveVolume removes a volume and its contents. KindConflict: a sandbox has it mounted.
	RemoveVolume(ctx context.Context, name string) error
}
