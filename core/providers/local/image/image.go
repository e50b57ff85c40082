package image

import (
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/seed-0724f904/sb/core"
)

// Image is one stored image for this machine's platform.
type Image struct {
	// ID is the digest of the image's manifest for this platform: "sha256:" and 64 hex digits.
	ID string `json:"id"`
	// Refs are the references that name the image, as Docker shows them: "busybox:1.36".
	Refs []string `json:"refs,omitempty"`
	// Path is the absolute path of the read-only EROFS file with the image's whole file system. It stays valid until
	// the image is removed; an open file stays valid after that.
	Path string `json:"-"`
	// Size is the size of that file in bytes.
	Size int64 `json:"size"`
	// Created is the time of the image's build. It is zero if the image has none.
	Created time.Time `json:"created,omitzero"`
	Config  Config    `json:"config"`
	// NoXattrs are the files whose extended attributes the image lost in the pull.
	NoXattrs core.LeftOut `json:"no_xattrs,omitzero"`
	// Damage is set by List if the image cannot be used.
	Damage error `json:"-"`
}

// Config has an image's settings for its process. No field is checked: the image is foreign input.
type Config struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	// Env has entries "NAME=value".
	Env []string `json:"env,omitempty"`
	// User is "user", "uid", "user:group" or "uid:gid"; names are those of the image. "" is root.
	User string `json:"user,omitempty"`
	// WorkingDir is "" for "/".
	WorkingDir string `json:"working_dir,omitempty"`
	// StopSignal is a name or a number: "SIGTERM". "" is SIGTERM.
	StopSignal string `json:"stop_signal,omitempty"`
	// ExposedPorts has sorted entries "8080/tcp".
	ExposedPorts []string          `json:"exposed_ports,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	// Volumes has sorted paths.
	Volumes []string `json:"volumes,omitempty"`
	// Shell is for commands without their own shell; none is /bin/sh -c.
	Shell       []string         `json:"shell,omitempty"`
	Healthcheck *v1.HealthConfig `json:"healthcheck,omitempty"`
}

// PullOptions are the options of Store.Pull. The zero value is ready to use.
type PullOptions struct {
	// Policy decides when Pull sends requests to a registry.
	Policy core.PullPolicy
	// Verify compares the checksum of a stored image, and replaces the image if it is damaged. It needs PullAlways.
	Verify bool
	// Progress receives the steps and the bytes; it may be nil. Several goroutines call it, one at a time.
	Progress core.ProgressFunc
	// Keychain has the credentials of registries; nil uses those of docker login and its helpers.
	Keychain authn.Keychain
	// Registries has the mirrors and the registries without TLS.
	Registries core.Registries
	// Engine has the images "docker-daemon:NAME"; nil has none.
	Engine Engine
}
