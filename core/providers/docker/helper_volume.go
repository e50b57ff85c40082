package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

const (
	// helperPrefix begins the names of the volumes that sb-guest comes with, and of the containers that fill them. No
	// sandbox's container has such a name, and no volume of anybody's may have one.
	helperPrefix = "sb.helper-"
	// labelHelper is on those containers, as version. It is not labelVersion: they are no sandboxes.
	labelHelper = "sb.helper"
	// fillingAge is when a container that fills a volume belongs to a launch that broke off.
	fillingAge = 10 * time.Minute
	// fillTries is how often a volume is filled that others fill at the same time.
	fillTries = 3
)

// helper is one build of sb-guest, as an engine has it: in a volume that is filled once and that sandboxes see
// read-only.
type helper struct {
	program []byte
	volume  string
}

// helper reads the sb-guest that runs on a processor.
func (p *Provider) helper(arch string) (helper, error) {
	file, err := p.guestPath(arch)
	if err != nil {
		return helper{}, err
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return helper{}, core.Errorf(core.KindUnavailable, "docker", file, "sb's helper cannot be read: %w", err)
	}
	sum := sha256.Sum256(program)
	return helper{program: program, volume: helperPrefix + hex.EncodeToString(sum[:8])}, nil
}

// mount is the helper in a sandbox. A volume that was removed a moment ago is made again by the engine, empty.
func (h helper) mount(dir wire.Dir) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: h.volume, Target: dir.Bin(), ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	}
}

// bring sees to it that the engine has the helper. image is one that is there; nothing is run from it.
func (e containers) bring(ctx context.Context, h helper, image string) error {
	asking, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	_, err := e.Client.VolumeInspect(asking, h.volume, client.VolumeInspectOptions{})
	if errdefs.IsNotFound(err) {
		return e.fill(ctx, h, image)
	}
	return engine.Classify(asking, "launch", h.volume, err)
}

// fill puts the helper into its volume, which is made when it is not there, by a container that is never started.
func (e containers) fill(ctx context.Context, h helper, image string) (err error) {
	archive, err := h.archive()
	if err != nil {
		return err
	}
	dir := wire.NewDir()
	id, err := e.create(ctx, h.filler(image, dir))
	if err != nil {
		return err
	}
	defer func() {
		// The caller's context may have ended already, but the container must be removed.
		ctx, cancel := engine.Within(context.WithoutCancel(ctx), engine.WorkTimeout)
		defer cancel()
		_, removeErr := e.Client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		err = errors.Join(err, engine.Classify(ctx, "launch", h.volume, removeErr))
	}()
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	for try := 1; ; try++ {
		_, err := e.Client.CopyToContainer(
			ctx, id, client.CopyToContainerOptions{DestinationPath: dir.Bin(), Content: bytes.NewReader(archive)},
		)
		if err == nil {
			return nil
		}
		// An engine that unpacks several at once may fail for one, whose link somebody else has made: that is whole,
		// too.
		_, statErr := e.Client.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: dir.Program()})
		if statErr == nil {
			return nil
		}
		if try == fillTries || !errdefs.IsNotFound(statErr) {
			return engine.Classify(ctx, "launch", h.volume, err)
		}
	}
}

// filler is a container in which the helper's volume can be written to.
func (h helper) filler(image string, dir wire.Dir) client.ContainerCreateOptions {
	writable := h.mount(dir)
	writable.ReadOnly = false
	return client.ContainerCreateOptions{
		Name: helperPrefix + rand.Text(),
		Config: &container.Config{
			Image: image, Cmd: []string{dir.Program()}, Labels: map[string]string{labelHelper: version},
		},
		HostConfig: &container.HostConfig{NetworkMode: network.NetworkNone, Mounts: []mount.Mount{writable}},
	}
}

// archive returns an archive with the helper under a random name, and then a link to it under the real name. The link
// appears once the file is complete. A new link does not affect the helpers that run.
func (h helper) archive() ([]byte, error) {
	var archive bytes.Buffer
	archive.Grow(len(h.program) + 8<<10)
	w := tar.NewWriter(&archive)
	own, now := rand.Text(), time.Now()
	if err := w.WriteHeader(&tar.Header{
		Name: own, Mode: 0o755, Size: int64(len(h.program)), Typeflag: tar.TypeReg, ModTime: now,
	}); err != nil {
		return nil, err
	}
	if _, err := w.Write(h.program); err != nil {
		return nil, err
	}
	if err := w.WriteHeader(&tar.Header{
		Name: wire.ProgramName, Linkname: own, Mode: 0o755, Typeflag: tar.TypeLink, ModTime: now,
	}); err != nil {
		return nil, err
	}
	return archive.Bytes(), w.Close()
}

// helperLost says whether a container's helper is not in the volume where it was: somebody removed that volume while
// the container was made.
func (e containers) helperLost(ctx context.Context, id string, h helper, dir wire.Dir) bool {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	found, err := e.container(ctx, id)
	if err != nil || !slices.ContainsFunc(found.Mounts, func(m container.MountPoint) bool { return m.Name == h.volume }) {
		return false
	}
	_, err = e.Client.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: dir.Program()})
	return errdefs.IsNotFound(err)
}

// unusedHelpers lists the helper's volumes that no container has. They are asked for one by one: what Podman calls
// dangling may be in use.
func (e containers) unusedHelpers(ctx context.Context) ([]string, error) {
	listed, err := e.Client.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).
		Add("name", helperPrefix)})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, v := range listed.Items {
		if !strings.HasPrefix(v.Name, helperPrefix) { // the filter takes parts of names, too
			continue
		}
		users, err := e.Client.ContainerList(
			ctx, client.ContainerListOptions{All: true, Limit: 1, Filters: make(client.Filters).Add("volume", v.Name)},
		)
		if err != nil {
			return nil, err
		}
		if len(users.Items) == 0 {
			names = append(names, v.Name)
		}
	}
	return names, nil
}

// brokenOff lists the containers that were to fill a volume and are older than that.
func (e containers) brokenOff(ctx context.Context, age time.Duration) ([]container.Summary, error) {
	listed, err := e.Client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).
		Add("label", labelHelper+"="+version)})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(listed.Items, func(c container.Summary) bool {
		filling := slices.ContainsFunc(c.Names, func(name string) bool {
			return strings.HasPrefix(strings.TrimPrefix(name, "/"), helperPrefix)
		})
		return !filling || time.Since(time.Unix(c.Created, 0)) < age
	}), nil
}
