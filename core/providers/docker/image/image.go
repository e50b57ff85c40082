package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Image is an image of the engine, as launches need it.
type Image struct {
	ID, Arch, User, Workdir, StopSignal string
	Entrypoint, Cmd                     []string
	// Healthcheck is nil for an image without one.
	Healthcheck *container.HealthConfig
	// Volumes are the paths for which the image declares a volume.
	Volumes []string
	// content is a digest of its files and settings. Podman gives an image another id each time it is built.
	content string
}

// Store has the images of one engine.
type Store struct {
	Engine *engine.Engine
	Login  Login
	// Default is the image of a spec that names none.
	Default string
	// Labels are put on each image that is built.
	Labels map[string]string
}

// Get returns the image that spec starts from, after a build or a pull where it needs one.
func (s Store) Get(ctx context.Context, spec core.Spec, progress core.ProgressFunc) (Image, error) {
	if spec.Snapshot != "" {
		spec.Pull = core.PullDefault // it is in no registry
	}
	name, made, err := s.built(ctx, spec, cmp.Or(spec.Snapshot, spec.Image, s.Default), progress)
	if err != nil {
		return Image{}, err
	}
	if made {
		spec.Pull = core.PullDefault
	}
	return s.Have(ctx, name, spec.Pull, progress)
}

// Have returns an image, after a pull if the policy requires one.
func (s Store) Have(
	ctx context.Context, name string, policy core.PullPolicy, progress core.ProgressFunc,
) (Image, error) {
	found, err := Inspect(ctx, s.Engine, name)
	missing := errors.Is(err, core.KindNotFound)
	switch {
	case err != nil && !missing:
		return found, err
	case missing && policy == core.PullNever:
		return Image{}, core.Errorf(core.KindNotFound, "docker.image", name,
			"the engine does not have the image, and the policy for pulls is %q", policy).
			WithHint("pull it first: sb image pull %s --provider docker", name)
	case !missing && (policy != core.PullAlways || !moves(name)):
		return found, nil
	}
	if err := s.Pull(ctx, name, progress); err != nil {
		return Image{}, err
	}
	return Inspect(ctx, s.Engine, name)
}

// moves reports whether a registry may have another image for a name than the engine. A digest always names the same
// image.
func moves(name string) bool {
	named, err := reference.ParseAnyReference(name)
	if err != nil {
		return true // the engine reports the error
	}
	_, pinned := named.(reference.Digested)
	return !pinned && !MadeHere(name)
}

// MadeHere reports whether an image has a name "localhost/…". No registry has such an image.
func MadeHere(name string) bool {
	named, err := reference.ParseNormalizedNamed(name)
	return err == nil && reference.Domain(named) == "localhost"
}

// Inspect returns an image of the engine, by name or id. KindNotFound: the engine does not have it.
func Inspect(ctx context.Context, e *engine.Engine, name string) (Image, error) {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.Client.ImageInspect(ctx, name)
	if err != nil {
		return Image{}, engine.Classify(ctx, "image", name, err)
	}
	i := Image{ID: found.ID, Arch: engine.Architecture(found.Architecture)}
	settings, err := json.Marshal(found.Config)
	if err != nil {
		return Image{}, core.Wrap("docker.image", name, err)
	}
	i.content = digest(append(found.RootFS.Layers, string(settings))...)
	if found.Config != nil {
		i.User, i.Workdir = found.Config.User, found.Config.WorkingDir
		i.StopSignal, i.Healthcheck = found.Config.StopSignal, found.Config.Healthcheck
		i.Entrypoint, i.Cmd = found.Config.Entrypoint, found.Config.Cmd
		i.Volumes = slices.Sorted(maps.Keys(found.Config.Volumes))
	}
	return i, nil
}

// Pull gets an image from its registry, with the credentials of docker login. Only ctx bounds it.
func (s Store) Pull(ctx context.Context, name string, progress core.ProgressFunc) error {
	step := "pulling " + name
	progress(core.Progress{Step: step})
	// Without credentials the image may still be a public one.
	auth, unread := s.Login.of(name)
	answer, err := s.Engine.Client.ImagePull(ctx, name, client.ImagePullOptions{RegistryAuth: auth})
	if err != nil {
		return pullError(ctx, name, errors.Join(err, unread))
	}
	layers := map[string]core.Progress{}
	for message, err := range answer.JSONMessages(ctx) {
		if err != nil {
			return pullError(ctx, name, errors.Join(err, unread))
		}
		if message.Error != nil {
			return pullError(ctx, name, errors.Join(errors.New(message.Error.Message), unread))
		}
		if message.Progress == nil || message.Progress.Total <= 0 || message.ID == "" {
			continue
		}
		layers[message.ID] = core.Progress{Done: message.Progress.Current, Total: message.Progress.Total}
		all := core.Progress{Step: step}
		for _, layer := range layers {
			all.Done += layer.Done
			all.Total += layer.Total
		}
		progress(all)
	}
	return nil
}

// pullError reports that the image cannot be pulled. Engines answer only with the registry's text.
func pullError(ctx context.Context, name string, err error) error {
	failed := engine.Classify(ctx, "image", name, err)
	e, ok := errors.AsType[*core.Error](failed)
	if !ok || ctx.Err() != nil || e.Kind == core.KindUnavailable {
		return failed
	}
	if e.Kind == core.KindInternal {
		e.Kind = core.KindNotFound
		if errdefs.IsInternal(err) {
			e.Kind = core.KindUnavailable
		}
	}
	e.Err = fmt.Errorf("the image cannot be pulled: %w", e.Err)
	e.Hint = "check the name and the connection to the registry, or log in: docker login"
	return e
}
