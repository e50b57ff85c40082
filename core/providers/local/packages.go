//go:build linux

package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/packages"
	"github.com/seed-0724f904/sb/core/providers/local/build"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

const (
	// pythonImage is the image for a version of Python.
	pythonImage = "python:%s-slim"
	// packagesName begins the names of images with packages.
	packagesName = "localhost/sb-packages:"
	// venvDir is the virtual environment of packages over this machine's programs.
	venvDir = "/venv"
	// systemPath is the PATH of commands over this machine's programs.
	systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// onHost reports whether a new sandbox sees this machine's programs.
func onHost(spec core.Spec) bool {
	return spec.Dockerfile == "" && spec.Snapshot == "" && spec.Checkpoint == "" && spec.Python == "" &&
		(spec.Image == "" || spec.Image == HostImage)
}

// checkPackages refuses packages where they cannot be installed.
func checkPackages(spec core.Spec) error {
	fields := len(spec.Apt) + len(spec.Pip) + len(spec.Python)
	switch {
	case fields == 0:
		return nil
	case spec.Snapshot != "" || spec.Checkpoint != "":
		return core.Errorf(core.KindUnsupported, "local.launch", spec.Snapshot+spec.Checkpoint,
			"packages are installed into images, and not into snapshots and checkpoints").
			WithHint("install them in a running sandbox, then take a snapshot of it")
	case len(spec.Apt) > 0 && onHost(spec):
		return core.Errorf(core.KindUnsupported, "local.launch", strings.Join(spec.Apt, " "),
			"packages of apt need an image: %q is this machine's programs", HostImage).
			WithHint("name an image: --image debian:stable-slim")
	case spec.Python != "" && (spec.Dockerfile != "" || spec.Image != "" && spec.Image != HostImage):
		return core.Errorf(core.KindUnsupported, "local.launch", spec.Python,
			"Python of a version comes with its image, not on top of another").
			WithHint("leave --python out and name an image that has it, such as "+pythonImage, spec.Python)
	}
	return nil
}

// made returns the image of a launch, after its build steps.
func (p *Provider) made(ctx context.Context, spec core.Spec, progress core.ProgressFunc) (image.Image, error) {
	var base image.Image
	var err error
	switch {
	case spec.Dockerfile != "":
		base, err = p.buildFile(ctx, spec, progress)
	case spec.Python != "":
		base, err = p.pull(ctx, fmt.Sprintf(pythonImage, spec.Python), spec.Pull, progress)
	default:
		base, err = p.pull(ctx, spec.Image, spec.Pull, progress)
	}
	if err != nil || len(spec.Apt)+len(spec.Pip) == 0 {
		return base, err
	}
	return p.withPackages(ctx, spec, base, progress)
}

// withPackages returns an image with packages over a base.
func (p *Provider) withPackages(
	ctx context.Context, spec core.Spec, base image.Image, progress core.ProgressFunc,
) (image.Image, error) {
	text, titles, err := p.packages(spec, base.Config.User)
	if err != nil {
		return image.Image{}, err
	}
	builder, err := p.builder(spec, progress)
	if err != nil {
		return image.Image{}, err
	}
	builder.Pull = func(context.Context, string) (image.Image, error) { return base, nil }
	sum := sha256.Sum256([]byte(base.ID + "\n" + text))
	built, err := builder.Build(ctx, build.Options{
		File: "packages", Text: []byte(text), Titles: titles, Progress: progress,
		Ref: packagesName + hex.EncodeToString(sum[:8]),
	})
	return built, stateError("build", err)
}

// packages returns the Dockerfile that installs packages, and titles for its steps. The packages' names are arguments
// of the shell, not its script.
func (p *Provider) packages(spec core.Spec, user string) (_ string, titles map[int]string, _ error) {
	var b strings.Builder
	b.WriteString("FROM base\nUSER root\n")
	titles = map[int]string{}
	step := func(title, script string, arguments []string) error {
		argv, err := json.Marshal(append([]string{"/bin/sh", "-c", script, "sh"}, arguments...))
		titles[1+strings.Count(b.String(), "\n")] = title + " " + strings.Join(arguments, " ")
		fmt.Fprintf(&b, "RUN %s\n", argv)
		return err
	}
	if len(spec.Apt) > 0 {
		if err := step("apt-get install", aptScript(p.opts.AptMirror), spec.Apt); err != nil {
			return "", nil, err
		}
	}
	if len(spec.Pip) > 0 {
		script := "export PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1 PIP_DISABLE_PIP_VERSION_CHECK=1\n" +
			p.pipIndex() + `exec python3 -m pip install --no-cache-dir -- "$@"`
		if err := step("pip install", script, spec.Pip); err != nil {
			return "", nil, err
		}
	}
	if user != "" {
		if core.HasControl(user) || strings.ContainsAny(user, "$\\'\" ") {
			return "", nil, core.Errorf(
				core.KindUnsupported, "local.build", user, "the image has a user of an invalid name",
			)
		}
		fmt.Fprintf(&b, "USER %s\n", user)
	}
	return b.String(), titles, nil
}

// pipIndex returns the line of a script that sets the package index.
func (p *Provider) pipIndex() string {
	if p.opts.PipIndex == "" {
		return ""
	}
	return "export PIP_INDEX_URL=" + quoted(p.opts.PipIndex) + "\n"
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// aptScript returns the script that installs Debian packages, from a mirror unless it is "".
func aptScript(mirror string) string {
	return "SB_APT_MIRROR=" + quoted(mirror) + "\n" + packages.InstallApt +
		`install_apt "$@" && rm -rf /var/lib/apt/lists/*`
}

// venvFile is the description of a virtual environment over this machine's programs.
type venvFile struct {
	Packages []string `json:"packages"`
}

// withVenv returns the files of a sandbox with packages of pip over this machine's programs, and the spec that uses
// them. It makes them once for each list of packages and version of Python.
func (p *Provider) withVenv(
	ctx context.Context, spec core.Spec, progress core.ProgressFunc,
) (core.Spec, string, error) {
	python, err := hostPython()
	if err != nil {
		return spec, "", err
	}
	key, err := json.Marshal([]any{python, p.opts.PipIndex, spec.Pip})
	if err != nil {
		return spec, "", err
	}
	sum := sha256.Sum256(key)
	name := hex.EncodeToString(sum[:16])
	spec.Env = maps.Clone(spec.Env)
	if spec.Env == nil {
		spec.Env = map[string]string{}
	}
	if _, set := spec.Env["PATH"]; !set {
		spec.Env["PATH"] = venvDir + "/bin:" + systemPath
	}
	spec.Env["VIRTUAL_ENV"] = venvDir
	files, err := p.venvFiles(name)
	if errors.Is(err, fs.ErrNotExist) || store.IsDamage(err) {
		if err = p.makeVenv(ctx, spec, name, progress); err == nil {
			files, err = p.venvFiles(name)
		}
	}
	return spec, files, stateError("build", err)
}

func (p *Provider) venvFiles(name string) (string, error) {
	dir, err := p.store.Venvs().Read(name, nil)
	if err != nil {
		return "", err
	}
	files := filepath.Join(dir, store.SavedDir)
	return files, store.Check(files)
}

// hostPython identifies this machine's Python: its program and the program's time.
func hostPython() (string, error) {
	for dir := range strings.SplitSeq(systemPath, ":") {
		path := filepath.Join(dir, "python3")
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		target, err := filepath.EvalSymlinks(path)
		return fmt.Sprint(target, info.Size(), info.ModTime().UnixNano()), err
	}
	return "", core.Errorf(core.KindUnsupported, "local.launch", "", "this machine has no Python for --pip").
		WithHint("name an image: --image python:3.12")
}

// makeVenv installs packages into a new virtual environment, in a sandbox with the network policy of spec.
func (p *Provider) makeVenv(ctx context.Context, spec core.Spec, name string, progress core.ProgressFunc) error {
	if progress != nil {
		progress(core.Progress{Step: "installing " + strings.Join(spec.Pip, " "), Rare: true})
	}
	draft, err := p.store.Venvs().Draft()
	if err != nil {
		return err
	}
	defer draft.Close()
	files := filepath.Join(draft.Dir, store.SavedDir)
	script := "export PIP_DISABLE_PIP_VERSION_CHECK=1\n" + p.pipIndex() + "python3 -m venv " + venvDir + " || exit\n" +
		"exec " + venvDir + `/bin/python -m pip install --no-cache-dir -- "$@"`
	out := build.NewOutput(progress)
	exit, err := builds{provider: p, spec: spec}.inSandbox(ctx, nil, core.Network{}, core.ExecSpec{
		Command: append([]string{"/bin/sh", "-c", script, "sh"}, spec.Pip...), Stdout: out, Stderr: out,
	}, nil, func(id string) error {
		if _, err := p.writeOut(ctx, id, wire.VerbSnapshot, files); err != nil {
			return err
		}
		return store.Seal(files)
	})
	tail := out.End()
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return core.Errorf(core.KindUsage, "local.build", "", "pip: exit code %d\n%s", exit.Code, tail).
			WithHint("see what pip says; with --image python:3.12 the image's Python is used")
	}
	return draft.Publish(name, venvFile{spec.Pip}, true)
}
