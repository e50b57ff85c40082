package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

var (
	_ core.ImageEditor = (*Provider)(nil)
	_ core.ImagePorter = (*Provider)(nil)
)

func noImage(ref string) error {
	return core.Errorf(core.KindNotFound, "docker.image", ref, "there is no image %q", ref).
		WithHint("sb image ls lists them")
}

// InspectImage implements core.ImageEditor.
func (p *Provider) InspectImage(ctx context.Context, ref string) (core.ImageDetails, error) {
	e, err := p.connect(ctx)
	if err != nil {
		return core.ImageDetails{}, err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.Client.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return core.ImageDetails{}, noImage(ref)
	}
	if err != nil {
		return core.ImageDetails{}, engine.Classify(ctx, "image", ref, err)
	}
	details := core.ImageDetails{
		ImageInfo: core.ImageInfo{
			ID: found.ID, Provider: Name, Created: parseTime(found.Created), Size: core.Bytes(found.Size),
		},
		Platform: found.Os + "/" + engine.Architecture(found.Architecture), Layers: found.RootFS.Layers,
	}
	for _, tag := range found.RepoTags {
		details.Names = append(details.Names, familiar(tag))
	}
	for _, digest := range found.RepoDigests {
		if !strings.HasPrefix(digest, "localhost/") { // Podman gives one to images that no registry has
			details.Digests = append(details.Digests, familiar(digest))
		}
	}
	if c := found.Config; c != nil {
		details.Entrypoint, details.Command, details.Env, details.User = c.Entrypoint, c.Cmd, c.Env, c.User
		details.Workdir, details.StopSignal, details.Labels = c.WorkingDir, c.StopSignal, c.Labels
		details.Ports = slices.Sorted(maps.Keys(c.ExposedPorts))
		details.Volumes = slices.Sorted(maps.Keys(c.Volumes))
	}
	using, err := e.Client.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("ancestor", found.ID),
	})
	if err != nil {
		return details, engine.Classify(ctx, "image", ref, err)
	}
	for _, c := range using.Items {
		for _, name := range c.Names {
			details.UsedBy = append(details.UsedBy, "container "+strings.TrimPrefix(name, "/"))
		}
	}
	return details, nil
}

// TagImage implements core.ImageEditor.
func (p *Provider) TagImage(ctx context.Context, ref, name string) error {
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	_, err = e.Client.ImageTag(ctx, client.ImageTagOptions{Source: ref, Target: name})
	switch {
	case errdefs.IsNotFound(err):
		return noImage(ref)
	case errdefs.IsInvalidArgument(err):
		return core.Errorf(core.KindUsage, "docker.image", name, "it is no name for an image: %w", err)
	}
	return engine.Classify(ctx, "image", ref, err)
}

// ExportImage implements core.ImagePorter by the engine's save. Docker's archives have both formats, Podman's have that
// of docker save.
func (p *Provider) ExportImage(
	ctx context.Context, ref string, format core.ImageFormat, to io.Writer, progress core.ProgressFunc,
) error {
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	if format == core.ImageOCI && e.Podman {
		return core.Errorf(core.KindUnsupported, "docker.image", ref, "Podman's API saves no OCI archives").
			WithHint("use --format docker")
	}
	if progress != nil {
		progress(core.Progress{Step: "saving " + ref})
	}
	// Podman reports a missing image as an internal error of the save.
	if _, err := p.InspectImage(ctx, ref); err != nil {
		return err
	}
	saved, err := e.Client.ImageSave(ctx, []string{ref})
	if err != nil {
		return engine.Classify(ctx, "image", ref, err)
	}
	_, err = io.Copy(to, saved)
	return engine.Classify(ctx, "image", ref, errors.Join(err, saved.Close()))
}

// ImportImage implements core.ImagePorter by the engine's load.
func (p *Provider) ImportImage(
	ctx context.Context, file, name string, progress core.ProgressFunc,
) (core.ImageInfo, error) {
	e, err := p.connect(ctx)
	if err != nil {
		return core.ImageInfo{}, err
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return core.ImageInfo{}, core.Errorf(core.KindUnsupported, "docker.image", file, "engines load no directories").
			WithHint("make an archive of it: tar -C %s -c . | sb image import -", file)
	}
	in, err := os.Open(file)
	if err != nil {
		return core.ImageInfo{}, core.Wrap("docker.image", file, err)
	}
	defer func() { _ = in.Close() }()
	if progress != nil {
		progress(core.Progress{Step: "loading " + file})
	}
	answer, err := e.Client.ImageLoad(ctx, in, client.ImageLoadWithQuiet(true))
	if err != nil {
		return core.ImageInfo{}, engine.Classify(ctx, "image", file, err)
	}
	loaded, err := loadedImage(answer)
	if err = errors.Join(err, answer.Close()); err != nil {
		return core.ImageInfo{}, core.Errorf(core.KindUsage, "docker.image", file, "the engine did not load it: %w", err)
	}
	if name != "" {
		if err := p.TagImage(ctx, loaded, name); err != nil {
			return core.ImageInfo{}, err
		}
	}
	details, err := p.InspectImage(ctx, loaded)
	return details.ImageInfo, err
}

// loadedImage returns the name or the id of the loaded image. Engines return it only in their messages.
func loadedImage(answer io.Reader) (string, error) {
	loaded := ""
	for lines := bufio.NewScanner(answer); lines.Scan(); {
		var message struct {
			Stream string `json:"stream"`
			Error  string `json:"error"`
		}
		if json.Unmarshal(lines.Bytes(), &message) != nil {
			continue
		}
		if message.Error != "" {
			return "", errors.New(message.Error)
		}
		for _, prefix := range []string{"Loaded image ID: ", "Loaded image: ", "Loaded image(s): "} {
			if ref, ok := strings.CutPrefix(message.Stream, prefix); ok {
				loaded, _, _ = strings.Cut(strings.TrimSpace(ref), ",")
			}
		}
	}
	if loaded == "" {
		return "", errors.New("it named no image")
	}
	return loaded, nil
}
