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

// built returns the name or the id of the image that spec starts from, after its build steps. The engine caches a layer
// for each step, so a second build is fast.
func (s Store) built(ctx context.Context, spec core.Spec, base string, progress core.ProgressFunc) (string, error) {
	if spec.Dockerfile != "" {
		name, id, err := s.buildFile(ctx, spec.Dockerfile, progress)
		if err != nil || len(spec.Apt)+len(spec.Pip) == 0 {
			// Another sb may give the name to another image.
			return id, err
		}
		base = name // a Dockerfile cannot start from an id
	}
	if spec.Python != "" {
		if spec.Dockerfile != "" || spec.Snapshot != "" || spec.Image != "" && spec.Image != s.Default {
			return "", core.Errorf(core.KindUnsupported, "docker.build", spec.Python,
				"in a container Python of a version comes with its image, not on top of another").
				WithHint("leave --python out and name an image that has it, such as "+pythonImage, spec.Python)
		}
		base = fmt.Sprintf(pythonImage, spec.Python)
	}
	if len(spec.Apt)+len(spec.Pip) == 0 {
		return base, nil
	}
	// The base may need a pull, and its user stays the user of commands.
	from, err := s.have(ctx, base, progress)
	if err != nil {
		return "", err
	}
	text := packages(base, from.User, spec)
	sum := digest(from.content, text)
	if _, err := Inspect(ctx, s.Engine, buildName+sum); !errors.Is(err, core.KindNotFound) {
		return buildName + sum, err
	}
	files := func(w *tar.Writer) error { return addFile(w, "Dockerfile", []byte(text)) }
	_, id, err := s.buildImage(ctx, "Dockerfile", sum, files, progress)
	return id, err
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
func (s Store) buildFile(ctx context.Context, file string, progress core.ProgressFunc) (name, id string, err error) {
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
	if err := s.bases(ctx, path, progress); err != nil {
		return "", "", err
	}
	dir, dockerfile := filepath.Split(path)
	files := func(w *tar.Writer) error { return addContext(ctx, w, dir, dockerfile) }
	return s.buildImage(ctx, dockerfile, digest(path), files, progress)
}

// bases pulls the base images of a Dockerfile for which docker login has credentials: BuildKit has no credentials
// without a session. An image that cannot be pulled here is left to the builder, which reports it.
func (s Store) bases(ctx context.Context, file string, progress core.ProgressFunc) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return core.Errorf(core.KindNotFound, "docker.build", file, "the Dockerfile cannot be read: %w", err)
	}
	for _, base := range baseNames(text) {
		if auth, err := s.Login.of(base); err == nil && auth != "" {
			_, _ = s.have(ctx, base, progress)
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
func (s Store) buildImage(ctx context.Context, dockerfile, sum string, files func(*tar.Writer) error,
	progress core.ProgressFunc,
) (name, id string, err error) {
	name = buildName + sum
	progress(core.Progress{Step: "building the image"})
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
	id, err = s.build(ctx, r, dockerfile, name, progress)
	_ = r.CloseWithError(errors.New("the build is over"))
	if sendErr := <-sent; err != nil && sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) && ctx.Err() == nil {
		if _, ok := errors.AsType[*fs.PathError](sendErr); ok {
			err = core.Wrap("docker.build", dockerfile, sendErr)
		}
	}
	return name, id, err
}

// build runs one build, reports its steps and returns the image's id. It uses BuildKit, or the classic builder of an
// engine without it.
func (s Store) build(
	ctx context.Context, archive io.Reader, dockerfile, name string, progress core.ProgressFunc,
) (string, error) {
	auths, unread := s.Login.all()
	options := client.ImageBuildOptions{
		Dockerfile: dockerfile, Tags: []string{name}, Remove: true, ForceRemove: true, Labels: s.Labels, AuthConfigs: auths,
	}
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
				WithHint("see what the step that failed says, and mend the Dockerfile or the package's name")
		}
		steps.take(message)
	}
}
