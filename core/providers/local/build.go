//go:build linux

package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/build"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// buildName begins the names of images that a launch builds.
const buildName = "localhost/sb-build:"

// buildPrefix begins the names of the sandboxes of builds.
const buildPrefix = "build-"

var _ core.ImageBuilder = (*Provider)(nil)

// BuildImage implements core.ImageBuilder.
func (p *Provider) BuildImage(
	ctx context.Context, b core.ImageBuild, progress core.ProgressFunc,
) (core.ImageInfo, error) {
	if err := p.free(b.Name); err != nil {
		return core.ImageInfo{}, err
	}
	builder, err := p.builder(b.Spec, progress)
	if err != nil {
		return core.ImageInfo{}, err
	}
	built, err := builder.Build(ctx, build.Options{
		File: b.File, Context: b.Dir, Args: b.Args, Target: b.Target, Secrets: b.Secrets, NoCache: b.NoCache, Ref: b.Name,
		Progress: progress,
	})
	return imageInfo(built), stateError("build", err)
}

// buildFile builds the Dockerfile of a launch with its directory. Builds of the same file have the same name.
func (p *Provider) buildFile(ctx context.Context, spec core.Spec, progress core.ProgressFunc) (image.Image, error) {
	file, err := filepath.Abs(spec.Dockerfile)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(file); err == nil && info.IsDir() {
			file = filepath.Join(file, "Dockerfile")
			_, err = os.Stat(file)
		}
	}
	if err != nil {
		return image.Image{}, core.Errorf(
			core.KindNotFound, "local.build", spec.Dockerfile, "the Dockerfile cannot be read: %w", err,
		)
	}
	builder, err := p.builder(spec, progress)
	if err != nil {
		return image.Image{}, err
	}
	sum := sha256.Sum256([]byte(file))
	built, err := builder.Build(ctx, build.Options{
		File: file, Context: filepath.Dir(file), Progress: progress, Ref: buildName + hex.EncodeToString(sum[:8]),
	})
	return built, stateError("build", err)
}

// builder returns the builder of images. Its sandboxes have the network policy and the limits of spec.
func (p *Provider) builder(spec core.Spec, progress core.ProgressFunc) (*build.Builder, error) {
	images, err := p.openImages()
	if err != nil {
		return nil, err
	}
	return &build.Builder{
		Images: images, Dir: p.store.BuildDir(), Runner: builds{provider: p, spec: spec},
		Pull: func(ctx context.Context, ref string) (image.Image, error) {
			return p.pull(ctx, ref, spec.Pull, progress)
		},
	}, nil
}

// builds runs the commands of builds in sandboxes.
type builds struct {
	provider *Provider
	// spec has the network policy and the limits.
	spec core.Spec
	// mounts are the caches of one command.
	mounts []socket.Mount
}

// Run implements build.Runner.
func (b builds) Run(ctx context.Context, run build.Run) (core.Exit, error) {
	p := b.provider
	network := core.Network{}
	if run.Offline {
		network.Mode = core.NetworkNone
	}
	command := core.ExecSpec{
		Command: run.Argv, User: run.User, Workdir: run.Workdir, Stdout: run.Output, Stderr: run.Output,
	}
	for name, value := range run.Secrets {
		command.Secrets = append(command.Secrets, core.Secret{Name: name, Value: value})
	}
	root := &socket.Root{Path: run.Root, Env: run.Env}
	for _, f := range run.SecretFiles {
		root.Files = append(root.Files, socket.RootFile{Path: f.Path, Content: []byte(f.Value.Reveal()), Mode: f.Mode})
	}
	for _, c := range run.Caches {
		var attr unix.Stat_t
		source, err := filepath.EvalSymlinks(c.Source)
		if err == nil {
			err = unix.Lstat(source, &attr)
		}
		if err != nil {
			return core.Exit{}, stateError("build", err)
		}
		b.mounts = append(b.mounts, socket.Mount{
			Source: source, Target: c.Target, ReadOnly: c.ReadOnly, Device: attr.Dev, Inode: attr.Ino, Named: true,
		})
	}
	return b.inSandbox(
		ctx, root, network, command,
		func(id string) error { return p.addScripts(ctx, id, run.Scripts) },
		func(id string) error { return p.layer(ctx, id, run.Layer) },
	)
}

// inSandbox runs a command in a new sandbox, and removes the sandbox. The sandbox also ends with this process. A nil
// root shows this machine's programs. A network without a mode is that of the builds. before, unless nil, comes before
// the command, and after comes after a command that succeeded.
func (b builds) inSandbox(
	ctx context.Context, root *socket.Root, network core.Network, command core.ExecSpec,
	before, after func(id string) error,
) (exit core.Exit, err error) {
	p := b.provider
	if network.Mode == core.NetworkDefault {
		network = b.spec.Network
	}
	spec := core.Spec{
		Name: buildPrefix + core.NewName(), CPU: b.spec.CPU, Memory: b.spec.Memory, Disk: b.spec.Disk,
		Processes: b.spec.Processes, OpenFiles: b.spec.OpenFiles, Network: network, App: b.spec.App,
	}
	id, end, err := p.temporary(ctx, spec, socket.Launch{Root: root, Mounts: b.mounts})
	if err != nil {
		return exit, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if before != nil {
		if err := before(id); err != nil {
			return exit, err
		}
	}
	process, err := p.Exec(ctx, id, command)
	if err != nil {
		return exit, err
	}
	defer func() { err = errors.Join(err, process.Close()) }()
	if exit, err = process.Wait(ctx); err != nil || exit.Code != 0 {
		return exit, err
	}
	return exit, after(id)
}

// temporary starts a sandbox that ends with this process. The caller calls end.
func (p *Provider) temporary(
	ctx context.Context, spec core.Spec, request socket.Launch,
) (id string, end func() error, err error) {
	id = core.NewID(store.IDPrefix)
	lock, err := p.store.Create(id)
	if err != nil {
		return "", nil, stateError("build", err)
	}
	request.ID, request.Spec = id, spec
	request.Lease = core.Lease{Owner: core.CurrentOwner("build"), Created: time.Now().UTC(), Bound: true}
	_, err = p.make(ctx, lock, request, nil, nil)
	_ = lock.Close() // the supervisor has it
	if err != nil {
		return "", nil, err
	}
	return id, func() error { return p.Terminate(context.WithoutCancel(ctx), id) }, nil
}

// addScripts writes executable files into the directory in memory for here-documents.
func (p *Provider) addScripts(ctx context.Context, id string, scripts map[string]string) error {
	if len(scripts) == 0 {
		return nil
	}
	if err := p.Mkdir(ctx, id, build.ScriptsDir, true); err != nil {
		return err
	}
	for name, text := range scripts {
		to := path.Join(build.ScriptsDir, name)
		if err := p.WriteFile(ctx, id, to, strings.NewReader(text), core.WriteOptions{Mode: 0o755}); err != nil {
			return err
		}
	}
	return nil
}

// layer writes the archive of a sandbox's writable layer. It suspends the sandbox.
func (p *Provider) layer(ctx context.Context, id string, to io.Writer) error {
	out, in, err := os.Pipe()
	if err != nil {
		return core.Wrap("local.build", id, err)
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(to, out)
		_ = out.Close() // the supervisor must not wait after an error here
		copied <- err
	}()
	_, err = p.control(ctx, id, &wire.Request{Verb: wire.VerbLayer}, in)
	_ = in.Close()
	if copyErr := <-copied; copyErr != nil {
		return stateError("build", copyErr)
	}
	return err
}
