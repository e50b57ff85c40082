package core

import "context"

// ImageBuild describes the build of an image from a Dockerfile.
type ImageBuild struct {
	// Dir is the absolute path of the directory that COPY and ADD read.
	Dir string
	// File is the absolute path of the Dockerfile.
	File string
	// Name is the name of the image: "app:1.0".
	Name string
	// Args are the values of ARG instructions.
	Args map[string]string
	// Target is the stage to build; "" is the last one.
	Target string
	// Secrets are the values for RUN --mount=type=secret, by id.
	Secrets map[string]SecretValue
	// NoCache runs all steps again.
	NoCache bool
	// Spec has the network policy and the limits of the sandboxes that run commands, and when base images are pulled. A
	// provider whose builder has its own ignores them.
	Spec Spec
}

// ImageBuilder builds images. Its capability is CapImageBuild.
type ImageBuilder interface {
	// BuildImage builds an image, or returns it if all steps are cached. progress receives the steps and their output.
	// KindUsage: the Dockerfile has an error, or a step failed; the error has the end of its output.
	BuildImage(ctx context.Context, build ImageBuild, progress ProgressFunc) (ImageInfo, error)
}
