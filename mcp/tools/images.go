package tools

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type pullImageIn struct {
	Image    string `json:"image" jsonschema:"such as python:3.12"`
	Provider string `json:"provider,omitempty"`
}

type buildImageIn struct {
	Local      string            `json:"local_path" jsonschema:"directory with the Dockerfile"`
	Name       string            `json:"name" jsonschema:"name of the image, such as app:1.0"`
	Dockerfile string            `json:"dockerfile,omitempty" jsonschema:"path in the directory" default:"Dockerfile"`
	Args       map[string]string `json:"build_args,omitempty" jsonschema:"values of ARG instructions"`
	Target     string            `json:"target,omitempty" jsonschema:"stage; default: the last"`
	Provider   string            `json:"provider,omitempty"`
}

type imageInfo struct {
	ID       string     `json:"id"`
	Names    []string   `json:"names,omitempty"`
	Provider string     `json:"provider"`
	Created  time.Time  `json:"created,omitzero"`
	Size     core.Bytes `json:"size_bytes,omitempty"`
}

func imageOf(i core.ImageInfo) imageInfo {
	return imageInfo{ID: i.ID, Names: i.Names, Provider: i.Provider, Created: i.Created, Size: i.Size}
}

// Text implements texter.
func (o imageInfo) Text() string {
	text := strings.Join(append(slices.Clone(o.Names), o.ID), " ") + " at " + o.Provider
	if o.Size > 0 {
		text += ", " + o.Size.String()
	}
	return text
}

type imagesOut struct {
	Images   []imageInfo `json:"images"`
	Failures []string    `json:"failures,omitempty"`
}

// Text implements texter.
func (o imagesOut) Text() string {
	if len(o.Images)+len(o.Failures) == 0 {
		return "no images"
	}
	var lines []string
	for _, image := range o.Images {
		lines = append(lines, image.Text())
	}
	return list(slices.Concat(o.Failures, lines))
}

func imageTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "image_list", Title: "List images", Toolset: setup.Stores, Extra: true, ReadOnly: true, Idempotent: true,
			Description: "List the images that providers have stored. sandbox_launch starts from these without a download.",
		}, listImages),
		Define(Tool{
			Name: "image_pull", Title: "Download an image", Toolset: setup.Stores, Extra: true, Idempotent: true,
			OpenWorld: true, Continues: true,
			Description: "Download an image of a registry for later launches. sandbox_launch also downloads a missing image.",
		}, pullImage),
		Define(Tool{
			Name: "image_build", Title: "Build an image", Toolset: setup.Stores, Extra: true, OpenWorld: true, Continues: true,
			Description: "Build an image from a Dockerfile in a directory of the user's machine. sandbox_launch takes its " +
				"name as image.",
		}, buildImage),
	}
}

func listImages(ctx context.Context, c *Call, in storeIn) (imagesOut, error) {
	out := imagesOut{Images: []imageInfo{}}
	found, err := c.Service.Stores.Images(ctx, in.Provider)
	for _, image := range found.Items {
		out.Images = append(out.Images, imageOf(image))
	}
	out.Failures = failuresOf(found.Failures)
	return out, err
}

// imageProvider applies the policy of launches to an image: a launch could start from it.
func (c *Call) imageProvider(op, image, provider string) (string, error) {
	policy := c.Host.Options.Policy
	if len(policy.Images) > 0 && !slices.Contains(policy.Images, image) {
		return "", core.Errorf(core.KindUnauthorized, op, image, "this image is not allowed here").
			WithHint("allowed: %s", strings.Join(policy.Images, ", "))
	}
	if policy.Template != "" {
		return "", core.Errorf(core.KindUnauthorized, op, image, "launches here have the image of a template")
	}
	if policy.Provider != "" && provider != "" && provider != policy.Provider {
		return "", core.Errorf(core.KindUnauthorized, op, provider, "this provider is not allowed here").
			WithHint("allowed: %s", policy.Provider)
	}
	if policy.Provider != "" {
		provider = policy.Provider
	}
	return provider, nil
}

func pullImage(ctx context.Context, c *Call, in pullImageIn) (imageInfo, error) {
	if core.ImageFromPath(in.Image) {
		return imageInfo{}, core.Errorf(core.KindUsage, "image pull", in.Image, "this is a path, not an image of a registry")
	}
	provider, err := c.imageProvider("image pull", in.Image, in.Provider)
	if err != nil {
		return imageInfo{}, err
	}
	pulled, err := c.Service.Stores.PullImage(ctx, provider, in.Image, func(p core.Progress) { c.Progress(ctx, p.Step) })
	return imageOf(pulled), err
}

func buildImage(ctx context.Context, c *Call, in buildImageIn) (imageInfo, error) {
	const op = "image build"
	policy := c.Host.Options.Policy
	if len(policy.Images) > 0 {
		return imageInfo{}, core.Errorf(core.KindUnauthorized, op, in.Name, "only given images are allowed here")
	}
	provider, err := c.imageProvider(op, in.Name, in.Provider)
	if err != nil {
		return imageInfo{}, err
	}
	dir, err := c.openedDirectory(ctx, in.Local)
	if err != nil {
		return imageInfo{}, err
	}
	name := in.Dockerfile
	if name == "" {
		name = "Dockerfile"
	}
	if !filepath.IsLocal(name) {
		return imageInfo{}, core.Errorf(core.KindUsage, op, name, "the Dockerfile is outside of the directory")
	}
	file, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return imageInfo{}, core.Errorf(core.KindOf(err), op, name, "%w", err)
	}
	if relative, err := filepath.Rel(dir, file); err != nil || !filepath.IsLocal(relative) {
		return imageInfo{}, core.Errorf(core.KindUnauthorized, op, name, "the Dockerfile is outside of the directory")
	}
	spec := core.Spec{CPU: policy.MaxCPU, Memory: policy.MaxMemory}
	if len(policy.Networks) > 0 {
		spec.Network.Mode = policy.Networks[0]
	}
	built, err := c.Service.Stores.BuildImage(ctx, provider, core.ImageBuild{
		Dir: dir, File: file, Name: in.Name, Args: in.Args, Target: in.Target, Spec: spec,
	}, func(p core.Progress) { c.Progress(ctx, p.Step) })
	return imageOf(built), err
}

// openedDirectory returns the path without links of a directory that the user opened to this server.
func (c *Call) openedDirectory(ctx context.Context, name string) (string, error) {
	root, relative, err := c.hostPath(ctx, name)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root.Name(), relative)
	if err := root.Close(); err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", core.Errorf(core.KindOf(err), "transfer", name, "%w", err)
	}
	root, _, err = c.hostPath(ctx, dir) // a link may lead out of the opened directory
	if err != nil {
		return "", err
	}
	return dir, root.Close()
}
