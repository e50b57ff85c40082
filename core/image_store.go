package core

import (
	"context"
	"slices"
	"strings"
	"time"
)

// HostImage is the image of providers that show the programs of the machine they run on. No registry has it.
const HostImage = "host"

// ImageFromPath reports whether an image is read from a path on this machine: "oci:DIR", "dir:PATH".
func ImageFromPath(image string) bool {
	place, _, ok := strings.Cut(image, ":")
	return ok && slices.Contains([]string{"oci", "oci-archive", "docker-archive", "dir"}, place)
}

// ImageInfo is an image that the provider has stored.
type ImageInfo struct {
	ID string `json:"id"`
	// Names are valid values for Spec.Image; a built image may have none.
	Names    []string  `json:"names,omitempty"`
	Provider string    `json:"provider"`
	Created  time.Time `json:"created,omitzero"`
	// Size is 0 if it is unknown.
	Size Bytes `json:"size,omitempty"`
}

// ImageStore manages stored images. Its capability is CapImageStore. With CapImages a launch can also use any other
// image.
type ImageStore interface {
	// Images returns the images in no order.
	Images(ctx context.Context) ([]ImageInfo, error)
	// PullImage downloads an image, so that a launch from it does not wait for the download.
	PullImage(ctx context.Context, name string, progress ProgressFunc) (ImageInfo, error)
	// RemoveImage removes an image by its id or one of its names. KindConflict: a sandbox uses it.
	RemoveImage(ctx context.Context, ref string) error
}

// ImageMounter mounts images in running sandboxes. Its capability is CapImageMount.
type ImageMounter interface {
	// MountImage mounts an image, such as a snapshot of a directory, at an absolute path.
	MountImage(ctx context.Context, id, image, target string) error
	// UnmountImage removes the mount at target.
	UnmountImage(ctx context.Context, id, target string) error
}
