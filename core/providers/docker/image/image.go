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
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Image is an image of the engine, as launches need it.
type Image struct {
	ID, Arch, User, Workdir string
	Entrypoint, Cmd         []string
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
	name, err := s.built(ctx, spec, cmp.Or(spec.Snapshot, spec.Image, s.Default), progress)
	if err != nil {
		return Image{}, err
	}
	return s.have(ctx, name, progress)
}

// have returns an image, after a pull when the engine does not have it.
func (s Store) have(ctx context.Context, name string, progress core.ProgressFunc) (Image, error) {
	found, err := Inspect(ctx, s.Engine, name)
	if errors.Is(err, core.KindNotFound) {
		if err := s.Pull(ctx, name, progress); err != nil {
			return Image{}, err
		}
		found, err = Inspect(ctx, s.Engine, name)
	}
	return found, err
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
	e.Hint = "see if its name is right, if the registry can be reached, and if it needs: docker login"
	return e
}
