package docker

import (
	"cmp"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// mounts returns the engine's mounts for spec's volumes. It creates a missing named volume, which stays when the
// sandbox ends. It refuses volumes that sb did not create, and the directory of the engine's socket.
func (p *Provider) mounts(ctx context.Context, e containers, spec core.Spec) ([]mount.Mount, error) {
	var mounts []mount.Mount
	for _, v := range spec.Volumes {
		target := path.Clean(v.Target)
		if target == "/" {
			return nil, core.Errorf(core.KindUsage, "docker.launch", v.Target, "nothing can be mounted there")
		}
		m := mount.Mount{Type: mount.TypeVolume, Source: v.Source, Target: target, ReadOnly: v.ReadOnly}
		if v.IsPath() {
			resolved, err := p.allowed(e, v.Source)
			if err != nil {
				return nil, err
			}
			m.Type, m.Source = mount.TypeBind, resolved
			m.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate}
		} else if err := p.volume(ctx, e, v.Source); err != nil {
			return nil, err
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// inMemory returns the options of each directory in memory. A read-only sandbox has one at /tmp.
func inMemory(spec core.Spec, podman bool) map[string]string {
	list := spec.Tmpfs
	tmp := func(target string) bool { return path.Clean(target) == "/tmp" }
	if spec.ReadOnly && !slices.ContainsFunc(list, func(t core.Tmpfs) bool { return tmp(t.Target) }) &&
		!slices.ContainsFunc(spec.Volumes, func(v core.Volume) bool { return tmp(v.Target) }) {
		list = append(slices.Clone(list), core.Tmpfs{Target: "/tmp"})
	}
	mounts := map[string]string{}
	for _, t := range list {
		options := "rw,exec,nosuid,nodev,mode=1777"
		if podman {
			options += ",notmpcopyup" // else the image's files there are copied, unlike in Docker
		}
		if t.Size > 0 {
			options += ",size=" + strconv.FormatInt(int64(t.Size), 10)
		}
		mounts[path.Clean(t.Target)] = options
	}
	return mounts
}

// untouched refuses a sandbox in which the mount point of a volume has become a link to sb's own program. The volume
// would cover the program, and its content would run as the first process. Podman mounts the volume at the last step of
// such a path, whatever is there.
func (l *launch) untouched(ctx context.Context, id string) error {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	places := l.image.Volumes
	for _, v := range l.spec.Volumes {
		places = append(places, v.Target)
	}
	for _, t := range l.spec.Tmpfs {
		places = append(places, t.Target)
	}
	for _, place := range places {
		at := "/"
		for step := range strings.SplitSeq(strings.Trim(path.Clean(place), "/"), "/") {
			at = path.Join(at, step)
			found, err := l.e.Client.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: at})
			if err != nil && !errdefs.IsNotFound(err) {
				return engine.Classify(ctx, "start", id, err)
			}
			at = cmp.Or(found.Stat.LinkTarget, at)
		}
		// A path through /proc leads elsewhere once a process runs.
		if at == "/" || below(at, string(l.dir)) || below(at, "/proc") {
			return core.Errorf(
				core.KindUnauthorized, "docker.start", place, "in the sandbox there is a link to %s where a volume is mounted", at,
			).
				WithHint("sb snapshot keeps its files")
		}
	}
	return nil
}

// allowed returns the host directory that source resolves to, if it may be mounted. The service has checked it. The
// engine's own socket is never mounted.
func (p *Provider) allowed(e containers, source string) (string, error) {
	resolved, err := filepath.EvalSymlinks(source)
	if err != nil {
		return "", core.Errorf(core.KindUsage, "docker.launch", source, "the directory cannot be mounted: %w", err)
	}
	if socket, ok := strings.CutPrefix(e.At.Host, "unix://"); ok {
		if target, err := filepath.EvalSymlinks(socket); err == nil {
			socket = target
		}
		if below(socket, resolved) {
			return "", core.Errorf(
				core.KindUnauthorized, "docker.launch", source, "the engine's socket is there, and it gives control of the host",
			)
		}
	}
	return resolved, nil
}

// below reports whether path is dir or lies in it.
func below(path, dir string) bool {
	dir = filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// volume creates a named volume if it does not exist.
func (p *Provider) volume(ctx context.Context, e containers, name string) error {
	if err := notOurs(name); err != nil {
		return err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.Client.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	switch {
	case err == nil && found.Volume.Labels[labelVersion] != "":
		return nil
	case err == nil:
		return core.Errorf(
			core.KindUnauthorized, "docker.launch", name, "the engine has a volume %s that sb did not make", name,
		).
			WithHint("choose another name")
	case !errdefs.IsNotFound(err):
		return engine.Classify(ctx, "launch", name, err)
	}
	_, err = e.Client.VolumeCreate(
		ctx, client.VolumeCreateOptions{Name: name, Labels: map[string]string{labelVersion: version}},
	)
	return engine.Classify(ctx, "launch", name, err)
}

// notOurs refuses the name of a volume with sb's helper: a program in it runs as the first process of every sandbox.
func notOurs(name string) error {
	if strings.HasPrefix(name, helperPrefix) {
		return core.Errorf(core.KindUnauthorized, "docker.volume", name, "sb keeps volumes of such names for its own helper").
			WithHint("choose another name")
	}
	return nil
}
