package docker

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
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/seed-0724f904/sb/core"
)

// buildName begins the name of an image that a launch built. The rest is made from what it was built from.
const buildName = "localhost/sb-build:"

// pythonImage is where Python of a version comes from.
const pythonImage = "python:%s-slim"

// built returns the name or the id of the image that spec starts from, after its build steps. The engine keeps a layer for
// each step, so that what was built before costs nothing.
func (p *Provider) built(ctx context.Context, e *engine, spec core.Spec, base string, progress core.ProgressFunc) (string, error) {
	if spec.Dockerfile != "" {
		name, id, err := p.buildFile(ctx, e, spec.Dockerfile, progress)
		if err != nil || len(spec.Apt)+len(spec.Pip) == 0 {
			// Another sb may give the name to what it builds.
			return id, err
		}
		base = name // no Dockerfile can start from an id
	}
	if spec.Python != "" {
		if spec.Dockerfile != "" || spec.Snapshot != "" || spec.Image != "" && spec.Image != p.opts.Image {
			return "", core.Errorf(core.KindUnsupported, "docker.build", spec.Python, "in a container Python of a version comes with its image, not on top of another").
				WithHint("leave --python out and name an image that has it, such as "+pythonImage, spec.Python)
		}
		base = fmt.Sprintf(pythonImage, spec.Python)
	}
	if len(spec.Apt)+len(spec.Pip) == 0 {
		return base, nil
	}
	// The base may have to be pulled, and its user is who commands run as.
	from, err := p.have(ctx, e, base, progress)
	if err != nil {
		return "", err
	}
	text := packages(base, from.user, spec)
	sum := digest(from.content, text)
	if _, err := inspectImage(ctx, e, buildName+sum); !errors.Is(err, core.KindNotFound) {
		return buildName + sum, err
	}
	files := func(w *tar.Writer) error { return addFile(w, "Dockerfile", []byte(text)) }
	_, id, err := p.buildImage(ctx, e, "Dockerfile", sum, files, progress)
	return id, err
}

// packages is the Dockerfile that installs spec's packages. Their names reach the shell as arguments, never as
// its text.
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
		step(`export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -y -qq --no-install-recommends -- "$@" && rm -rf /var/lib/apt/lists/*`, spec.Apt)
	}
	if len(spec.Pip) > 0 {
		step(`export PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1; python3 -m pip install --no-cache-dir -- "$@"`, spec.Pip)
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

// buildFile builds a Dockerfile with the directory that it is in.
func (p *Provider) buildFile(ctx context.Context, e *engine, file string, progress core.ProgressFunc) (name, id string, err error) {
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
	if err := p.bases(ctx, e, path, progress); err != nil {
		return "", "", err
	}
	dir, dockerfile := filepath.Split(path)
	files := func(w *tar.Writer) error { return addContext(ctx, w, dir, dockerfile) }
	return p.buildImage(ctx, e, dockerfile, digest(path), files, progress)
}

// bases gets the images that a Dockerfile starts from and docker login has credentials for: BuildKit has no credentials
// without a session. An image that cannot be pulled here is left to the builder, which reports it.
func (p *Provider) bases(ctx context.Context, e *engine, file string, progress core.ProgressFunc) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return core.Errorf(core.KindNotFound, "docker.build", file, "the Dockerfile cannot be read: %w", err)
	}
	for _, base := range baseNames(text) {
		if auth, err := p.credentials().of(base); err == nil && auth != "" {
			_, _ = p.have(ctx, e, base, progress)
		}
	}
	return ctx.Err()
}

// baseNames lists the images that a Dockerfile starts from, without those whose name has a variable. A Dockerfile that
// cannot be parsed has none: the builder reports the error.
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

// buildImage sends a context to the engine and returns the name and the id of what it built.
func (p *Provider) buildImage(ctx context.Context, e *engine, dockerfile, sum string, files func(*tar.Writer) error, progress core.ProgressFunc) (name, id string, err error) {
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
	id, err = p.build(ctx, e, r, dockerfile, name, progress)
	_ = r.CloseWithError(errors.New("the build is over"))
	if sendErr := <-sent; err != nil && sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) && ctx.Err() == nil {
		if _, ok := errors.AsType[*fs.PathError](sendErr); ok {
			err = core.Wrap("docker.build", dockerfile, sendErr)
		}
	}
	return name, id, err
}

// build runs one build, tells of its steps and returns the image's id: by BuildKit, or by the classic builder of an engine without it.
func (p *Provider) build(ctx context.Context, e *engine, archive io.Reader, dockerfile, name string, progress core.ProgressFunc) (string, error) {
	auths, unread := p.credentials().all()
	options := client.ImageBuildOptions{
		Dockerfile: dockerfile, Tags: []string{name}, Remove: true, ForceRemove: true, Labels: map[string]string{labelBuild: version, labelSnapshot: ""}, AuthConfigs: auths,
	}
	if !e.podman {
		options.Version = build.BuilderBuildKit
	}
	answer, err := e.client.ImageBuild(ctx, archive, options)
	if err != nil {
		return "", classify(ctx, "build", dockerfile, err)
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
			return "", classify(ctx, "build", dockerfile, err)
		}
		if message.Error != nil {
			said := steps.said.String()
			if unread != nil {
				said += "\n" + unread.Error()
			}
			return "", core.Errorf(core.KindUsage, "docker.build", dockerfile, "the build failed: %s\n%s", message.Error.Message, said).
				WithHint("see what the step that failed says, and mend the Dockerfile or the package's name")
		}
		steps.take(message)
	}
}

func addFile(w *tar.Writer, name string, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// addContext adds a directory but for what the .dockerignore of the Dockerfile lists, or else its own; the Dockerfile is always there.
func addContext(ctx context.Context, w *tar.Writer, dir, dockerfile string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	ignored, err := ignorePatterns(root, dockerfile)
	if err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil || path == "." {
			return err
		}
		if path != dockerfile {
			skip, err := ignored.MatchesOrParentMatches(path)
			if err != nil {
				return err
			}
			if skip && entry.IsDir() && !ignored.Exclusions() {
				return fs.SkipDir
			}
			if skip {
				return nil
			}
		}
		return addEntry(w, root, path, entry)
	})
}

func ignorePatterns(root *os.Root, dockerfile string) (*patternmatcher.PatternMatcher, error) {
	f, err := root.Open(dockerfile + ".dockerignore")
	if errors.Is(err, fs.ErrNotExist) {
		f, err = root.Open(".dockerignore")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return patternmatcher.New(nil)
	}
	if err != nil {
		return nil, err
	}
	patterns, err := ignorefile.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return patternmatcher.New(patterns)
}

// addEntry adds one file, directory or link as root's; others have no place in an image.
func addEntry(w *tar.Writer, root *os.Root, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	link := ""
	switch info.Mode().Type() {
	case 0, fs.ModeDir:
	case fs.ModeSymlink:
		if link, err = root.Readlink(path); err != nil {
			return err
		}
	default:
		return nil
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = filepath.ToSlash(path), 0, 0, "", ""
	if info.IsDir() {
		h.Name += "/"
	}
	if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(w, f, h.Size)
	return errors.Join(err, f.Close())
}
