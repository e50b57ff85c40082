package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// buildName is the prefix of built images' names. A digest of the input follows.
const buildName = "localhost/sb-build:"

// pythonImage is the image for a version of Python.
const pythonImage = "python:%s-slim"

// built returns the name or the id of the image that spec starts from, after its build steps. made means that a build
// made it. The engine caches a layer for each step, so a second build is fast.
func (s Store) built(
	ctx context.Context, spec core.Spec, base string, progress core.ProgressFunc,
) (image string, made bool, err error) {
	if spec.Dockerfile != "" {
		name, id, err := s.buildFile(ctx, spec.Dockerfile, spec.Pull, progress)
		if err != nil || len(spec.Apt)+len(spec.Pip) == 0 {
			// Another sb may give the name to another image.
			return id, true, err
		}
		base, spec.Pull = name, core.PullDefault // a Dockerfile cannot start from an id
	}
	if spec.Python != "" {
		if spec.Dockerfile != "" || spec.Snapshot != "" || spec.Image != "" && spec.Image != s.Default {
			return "", false, core.Errorf(core.KindUnsupported, "docker.build", spec.Python,
				"a Python version comes with an image and cannot be installed on another").
				WithHint("leave --python out and use an image that has it, such as "+pythonImage, spec.Python)
		}
		base = fmt.Sprintf(pythonImage, spec.Python)
	}
	if len(spec.Apt)+len(spec.Pip) == 0 {
		return base, false, nil
	}
	// The base may need a pull, and its user stays the user of commands.
	from, err := s.Have(ctx, base, spec.Pull, progress)
	if err != nil {
		return "", false, err
	}
	text := packages(base, from.User, spec)
	sum := digest(from.content, text)
	if _, err := Inspect(ctx, s.Engine, buildName+sum); !errors.Is(err, core.KindNotFound) {
		return buildName + sum, true, err
	}
	files := func(w *tar.Writer) error { return addFile(w, "Dockerfile", []byte(text)) }
	_, id, err := s.buildImage(ctx, "Dockerfile", sum, core.PullDefault, files, progress)
	return id, true, err
}

// packages returns the Dockerfile that installs spec's packages. Their names are arguments of the shell, not its
// script.
func packages(base, user string, spec core.Spec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\nUSER root\n", base)
	step := func(script string, arguments []string) {
		line, err := json.Marshal(append([]string{"/bin/sh", "-c", script, "sh"}, arguments...))
		if err == nil {
			fmt.Fprintf(&b, "RUN %s\n", line)
		}
	}
	if len(spec.Apt) > 0 {
		step(`export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && `+
			`apt-get install -y -qq --no-install-recommends -- "$@" && rm -rf /var/lib/apt/lists/*`, spec.Apt)
	}
	if len(spec.Pip) > 0 {
		step(`export PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1; `+
			`python3 -m pip install --no-cache-dir -- "$@"`, spec.Pip)
	}
	if user != "" {
		fmt.Fprintf(&b, "USER %s\n", user)
	}
	return b.String()
}

func digest(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d %s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// buildFile builds a Dockerfile with its directory.
func (s Store) buildFile(
	ctx context.Context, file string, policy core.PullPolicy, progress core.ProgressFunc,
) (name, id string, err error) {
	if policy == core.PullNever {
		return "", "", core.Errorf(core.KindUnsupported, "docker.build", file,
			"the engine's builder always pulls missing base images").
			WithHint("leave --pull never out, or launch with --image")
	}
	path, err := filepath.Abs(file)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, "Dockerfile")
			_, err = os.Stat(path)
		}
	}
	if err != nil {
		return "", "", core.Errorf(core.KindNotFound, "docker.build", file, "the Dockerfile cannot be read: %w", err)
	}
	if err := s.bases(ctx, path, policy, progress); err != nil {
		return "", "", err
	}
	dir, dockerfile := filepath.Split(path)
	files := func(w *tar.Writer) error { return addContext(ctx, w, dir, dockerfile) }
	return s.buildImage(ctx, dockerfile, digest(path), policy, files, progress)
}

// bases pulls the base images of a Dockerfile for which docker login has credentials: BuildKit has no credentials
// without a session. An image that cannot be pulled here is left to the builder, which reports it.
func (s Store) bases(ctx context.Context, file string, policy core.PullPolicy, progress core.ProgressFunc) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return core.Errorf(core.KindNotFound, "docker.build", file, "the Dockerfile cannot be read: %w", err)
	}
	for _, base := range baseNames(text) {
		if auth, err := s.Login.of(base); err == nil && auth != "" {
			_, _ = s.Have(ctx, base, policy, progress)
		}
	}
	return ctx.Err()
}

// baseNames lists a Dockerfile's base images, except those with a variable in their name. A Dockerfile that cannot be
// parsed has none: the builder reports the error.
func baseNames(dockerfile []byte) []string {
	parsed, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return nil
	}
	var names []string
	stages := map[string]bool{"scratch": true} // names that are no images
	for _, node := range parsed.AST.Children {
		if !strings.EqualFold(node.Value, "FROM") || node.Next == nil {
			continue
		}
		name := node.Next.Value
		if !stages[strings.ToLower(name)] && !strings.Contains(name, "$") {
			names = append(names, name)
		}
		if as := node.Next.Next; as != nil && strings.EqualFold(as.Value, "AS") && as.Next != nil {
			stages[strings.ToLower(as.Next.Value)] = true
		}
	}
	return names
}

// buildImage sends a context to the engine and returns the name and the id of the image.
func (s Store) buildImage(
	ctx context.Context, dockerfile, sum string, policy core.PullPolicy, files func(*tar.Writer) error,
	progress core.ProgressFunc,
) (name, id string, err error) {
	name = buildName + sum
	progress(core.Progress{Step: "building the image"})
	id, err = s.send(ctx, files, client.ImageBuildOptions{
		Dockerfile: dockerfile, Tags: []string{name}, PullParent: policy == core.PullAlways,
	}, progress)
	return name, id, err
}

// send sends a context to the engine and returns the id of the image.
func (s Store) send(
	ctx context.Context, files func(*tar.Writer) error, options client.ImageBuildOptions, progress core.ProgressFunc,
) (id string, err error) {
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		archive := tar.NewWriter(w)
		err := files(archive)
		if err == nil {
			err = archive.Close()
		}
		_ = w.CloseWithError(err)
		sent <- err
	}()
	id, err = s.build(ctx, r, options, progress)
	_ = r.CloseWithError(errors.New("the build has ended"))
	if sendErr := <-sent; err != nil && sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) && ctx.Err() == nil {
		if _, ok := errors.AsType[*fs.PathError](sendErr); ok {
			err = core.Wrap("docker.build", options.Dockerfile, sendErr)
		}
	}
	return id, err
}

// outsideName is the name in the context of a Dockerfile that is not in the context's directory.
const outsideName = ".sb-dockerfile"

// Build builds a named image and returns its id.
func (s Store) Build(ctx context.Context, b core.ImageBuild, progress core.ProgressFunc) (id string, err error) {
	switch {
	case len(b.Secrets) > 0:
		return "", core.Errorf(core.KindUnsupported, "docker.build", b.Name, "the engine takes no secrets for a build").
			WithHint("build on this machine: --provider local")
	case b.Spec.Pull == core.PullNever:
		return "", core.Errorf(core.KindUnsupported, "docker.build", b.Name,
			"the engine's builder cannot be kept from pulling base images").WithHint("leave --pull never out")
	}
	text, err := os.ReadFile(b.File)
	if err != nil {
		return "", core.Errorf(core.KindNotFound, "docker.build", b.File, "the Dockerfile cannot be read: %w", err)
	}
	if info, err := os.Stat(b.Dir); err != nil || !info.IsDir() {
		return "", core.Errorf(core.KindNotFound, "docker.build", b.Dir, "the directory cannot be read")
	}
	if err := s.bases(ctx, b.File, b.Spec.Pull, progress); err != nil {
		return "", err
	}
	dockerfile, err := filepath.Rel(b.Dir, b.File)
	inside := err == nil && filepath.IsLocal(dockerfile)
	if !inside {
		dockerfile = outsideName
	}
	files := func(w *tar.Writer) error {
		if !inside {
			if err := addFile(w, outsideName, text); err != nil {
				return err
			}
		}
		return addContext(ctx, w, b.Dir, dockerfile)
	}
	args := map[string]*string{}
	for name, value := range b.Args {
		args[name] = &value
	}
	return s.send(ctx, files, client.ImageBuildOptions{
		Dockerfile: dockerfile, Tags: []string{b.Name}, PullParent: b.Spec.Pull == core.PullAlways, BuildArgs: args,
		Target: b.Target, NoCache: b.NoCache,
	}, progress)
}

// build runs one build, reports its steps and returns the image's id. It uses BuildKit, or the classic builder of an
// engine without it.
func (s Store) build(
	ctx context.Context, archive io.Reader, options client.ImageBuildOptions, progress core.ProgressFunc,
) (string, error) {
	auths, unread := s.Login.all()
	options.Remove, options.ForceRemove, options.Labels, options.AuthConfigs = true, true, s.Labels, auths
	dockerfile, name := options.Dockerfile, options.Tags[0]
	if !s.Engine.Podman {
		options.Version = build.BuilderBuildKit
	}
	answer, err := s.Engine.Client.ImageBuild(ctx, archive, options)
	if err != nil {
		return "", engine.Classify(ctx, "build", dockerfile, err)
	}
	defer func() { _ = answer.Body.Close() }()
	steps := newBuildSteps(progress)
	for decoder := json.NewDecoder(answer.Body); ; {
		var message jsonstream.Message
		err := decoder.Decode(&message)
		if errors.Is(err, io.EOF) {
			return cmp.Or(steps.image, name), nil
		}
		if err != nil {
			return "", engine.Classify(ctx, "build", dockerfile, err)
		}
		if message.Error != nil {
			output := steps.output.String()
			if unread != nil {
				output += "\n" + unread.Error()
			}
			return "", core.Errorf(core.KindUsage, "docker.build", dockerfile, "the build failed: %s\n%s",
				message.Error.Message, output).
				WithHint("read the output of the failed step, and correct the Dockerfile or the package's name")
		}
		steps.take(message)
	}
}
