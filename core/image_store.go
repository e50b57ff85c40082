package core

import (
	"context"
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
