package docker

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
)

// image is what a launch needs to know of an image.
type image struct {
	id, arch, user, workdir string
	entrypoint, cmd         []string
	// volumes are the places where it asks for one.
	volumes []string
	// content stands for its files and settings: Podman gives the same image another id each time it is built.
	content string
}

// image finds what spec starts from, and gets it when the engine does not have it.
func (p *Provider) image(ctx context.Context, e *engine, spec core.Spec, progress core.ProgressFunc) (image, error) {
	name, err := p.built(ctx, e, spec, cmp.Or(spec.Snapshot, spec.Image, p.opts.Image), progress)
	if err != nil {
		return image{}, err
	}
	return p.have(ctx, e, name, progress)
}

// have returns an image, after getting it when the engine does not have it.
func (p *Provider) have(ctx context.Context, e *engine, name string, progress core.ProgressFunc) (image, error) {
	found, err := inspectImage(ctx, e, name)
	if errors.Is(err, core.KindNotFound) {
		if err := p.pull(ctx, e, name, progress); err != nil {
			return image{}, err
		}
		found, err = inspectImage(ctx, e, name)
	}
	return found, err
}

func inspectImage(ctx context.Context, e *engine, name string) (image, error) {
	ctx, cancel := within(ctx, askTimeout)
	defer cancel()
	found, err := e.client.ImageInspect(ctx, name)
	if err != nil {
		return image{}, classify(ctx, "image", name, err)
	}
	i := image{id: found.ID, arch: architecture(found.Architecture)}
	settings, err := json.Marshal(found.Config)
	if err != nil {
		return image{}, core.Wrap("docker.image", name, err)
	}
	i.content = digest(append(found.RootFS.Layers, string(settings))...)
	if found.Config != nil {
		i.user, i.workdir, i.entrypoint, i.cmd = found.Config.User, found.Config.WorkingDir, found.Config.Entrypoint, found.Config.Cmd
		i.volumes = slices.Sorted(maps.Keys(found.Config.Volumes))
	}
	return i, nil
}

// pull gets an image from its registry, with what docker login has kept for that. It takes as long as it takes; the caller's context bounds it.
func (p *Provider) pull(ctx context.Context, e *engine, name string, progress core.ProgressFunc) error {
	step := "pulling " + name
	progress(core.Progress{Step: step})
	// Where they cannot be read the image may be anybody's all the same.
	auth, unread := p.credentials().of(name)
	answer, err := e.client.ImagePull(ctx, name, client.ImagePullOptions{RegistryAuth: auth})
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

// pullError says that the image cannot be had. Engines answer with the registry's words only.
func pullError(ctx context.Context, name string, err error) error {
	failed := classify(ctx, "image", name, err)
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
