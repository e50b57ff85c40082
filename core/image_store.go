package core

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// HostImage is the image of providers that show the programs of the machine they run on. No registry has it.
const HostImage = "host"

// PullPolicy decides when a launch downloads its image.
type PullPolicy string

const (
	// PullDefault is the policy of the configuration. For a provider it is PullMissing.
	PullDefault PullPolicy = ""
	// PullMissing downloads images that are not stored. Stored images need no registry.
	PullMissing PullPolicy = "missing"
	// PullAlways resolves the name at the registry, and downloads an image that is not stored. A reference with a digest
	// cannot change, so a stored one needs no registry.
	PullAlways PullPolicy = "always"
	// PullNever uses stored images only. An image that is not stored is KindNotFound.
	PullNever PullPolicy = "never"
)

// PullPolicies returns the policies, the default first.
func PullPolicies() []string {
	return []string{string(PullMissing), string(PullAlways), string(PullNever)}
}

// ImageFromPath reports whether an image is read from this machine, and not from a registry: "oci:DIR", "dir:PATH",
// "docker-daemon:NAME".
func ImageFromPath(image string) bool {
	place, _, ok := strings.Cut(image, ":")
	return ok && slices.Contains([]string{"oci", "oci-archive", "docker-archive", "dir", "docker-daemon"}, place)
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
	// Note describes a problem with it; "" means none.
	Note string `json:"note,omitempty"`
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

// LeftOut counts what an operation left out, and names the first.
type LeftOut struct {
	Count int      `json:"count"`
	First []string `json:"first"`
}

// String returns the names, with the number of others: "/bin/a, /bin/b and 7 more".
func (l LeftOut) String() string {
	text := strings.Join(l.First, ", ")
	if more := l.Count - len(l.First); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ImageDetails is everything that a provider knows about a stored image.
type ImageDetails struct {
	ImageInfo

	// Digests are references by digest that a registry knows: "python@sha256:…". A built image has none.
	Digests []string `json:"digests,omitempty"`
	// Platform is "linux/amd64".
	Platform   string            `json:"platform,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Command    []string          `json:"command,omitempty"`
	Env        []string          `json:"env,omitempty"`
	User       string            `json:"user,omitempty"`
	Workdir    string            `json:"workdir,omitempty"`
	StopSignal string            `json:"stop_signal,omitempty"`
	Ports      []string          `json:"ports,omitempty"`
	Volumes    []string          `json:"volumes,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	// Layers are the digests of the layers without compression, where known.
	Layers []string `json:"layers,omitempty"`
	// NoXattrs are the files whose extended attributes, such as file capabilities, the provider does not keep.
	NoXattrs LeftOut `json:"no_xattrs,omitzero"`
	// UsedBy has "sandbox NAME", "snapshot NAME" and "checkpoint NAME", where known.
	UsedBy []string `json:"used_by,omitempty"`
}

// ImageEditor shows stored images and gives them names. Its capability is CapImageEdit.
type ImageEditor interface {
	// InspectImage returns an image by its id or one of its names. KindNotFound: it is not stored.
	InspectImage(ctx context.Context, ref string) (ImageDetails, error)
	// TagImage gives an image another name. It moves the name from an image that has it.
	TagImage(ctx context.Context, ref, name string) error
}

// ImageFormat is the format of an image's archive.
type ImageFormat string

const (
	// ImageOCI is the OCI image layout in a tar archive. It is the default.
	ImageOCI ImageFormat = "oci"
	// ImageDocker is the archive of "docker save".
	ImageDocker ImageFormat = "docker"
)

// ImagePorter carries images between providers as archives. Its capability is CapImagePort.
type ImagePorter interface {
	// ExportImage writes an image as a tar archive.
	ExportImage(ctx context.Context, ref string, format ImageFormat, to io.Writer, progress ProgressFunc) error
	// ImportImage stores the image in an archive or OCI directory on this machine. name is its name; "" uses that of the
	// archive. KindUsage: the file is no image, or has no name.
	ImportImage(ctx context.Context, file, name string, progress ProgressFunc) (ImageInfo, error)
}

// PushedImage is an image that a registry has received.
type PushedImage struct {
	// Name is the image's name with the registry: "ghcr.io/me/app:1".
	Name string `json:"name"`
	// Digest is that of the manifest: "sha256:…". Name@Digest always names this image.
	Digest   string `json:"digest"`
	Provider string `json:"provider"`
}

// ImagePusher sends stored images to registries. Its capability is CapImagePush.
type ImagePusher interface {
	// PushImage sends an image to the registry in name. Content that the registry has is not sent again. KindNotFound:
	// the image is not stored. KindUnauthorized: the registry refuses the credentials. KindUnavailable: it cannot be
	// reached, or fails.
	PushImage(ctx context.Context, ref, name string, progress ProgressFunc) (PushedImage, error)
}

// ImagePruner finds the images that can be removed. Its capability is CapImagePrune.
type ImagePruner interface {
	// UnusedImages returns the images that no sandbox, snapshot or checkpoint uses, the least recently used first.
	UnusedImages(ctx context.Context) ([]ImageInfo, error)
	// RemoveUnusedImage removes an image of UnusedImages with all its names. KindConflict: it is used now.
	RemoveUnusedImage(ctx context.Context, id string) error
}

// ImageMounter mounts images in running sandboxes. Its capability is CapImageMount.
type ImageMounter interface {
	// MountImage mounts an image, such as a snapshot of a directory, at an absolute path.
	MountImage(ctx context.Context, id, image, target string) error
	// UnmountImage removes the mount at target.
	UnmountImage(ctx context.Context, id, target string) error
}
