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
	// helperPrefix begins the names of the volumes with sb-guest, and of the containers that fill them. No sandbox's
	// container has such a name, and no other volume may have one.
	helperPrefix = "sb.helper-"
	// labelHelper is on those containers, with version. It is not labelVersion: they are not sandboxes.
	labelHelper = "sb.helper"
	// fillingAge is the age at which a filling container counts as left by an interrupted launch.
	fillingAge = 10 * time.Minute
	// fillTries bounds the tries to fill a volume that others fill at the same time.
	fillTries = 3
)

// helper is one build of sb-guest in an engine. It is in a volume that is filled once and that sandboxes mount
// read-only.
type helper struct {
	program []byte
	volume  string
}

// helper reads the sb-guest for a processor.
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

// mount returns the mount of the helper in a sandbox. The engine recreates a volume that was just removed, empty.
func (h helper) mount(dir wire.Dir) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: h.volume, Target: dir.Bin(), ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	}
}

// bring ensures that the engine has the helper. image is an existing image; nothing in it runs.
func (e containers) bring(ctx context.Context, h helper, image string) error {
	asking, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	_, err := e.Client.VolumeInspect(asking, h.volume, client.VolumeInspectOptions{})
	if errdefs.IsNotFound(err) {
		return e.fill(ctx, h, image)
	}
	return engine.Classify(asking, "launch", h.volume, err)
}

// fill copies the helper into its volume, which it creates if needed, through a container that never starts.
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
		// An engine that unpacks several archives at once may fail for one, because another launch has made the link. That
		// link is complete, too.
		_, statErr := e.Client.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: dir.Program()})
		if statErr == nil {
			return nil
		}
		if try == fillTries || !errdefs.IsNotFound(statErr) {
			return engine.Classify(ctx, "launch", h.volume, err)
		}
	}
}

// filler is a container that can write to the helper's volume.
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
// appears once the file is complete. A new link does not affect running helpers.
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

// helperLost reports whether a container's volume lacks the helper.
func (e containers) helperLost(ctx context.Context, id string, dir wire.Dir) bool {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	_, err := e.Client.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: dir.Program()})
	return errdefs.IsNotFound(err)
}

// unusedHelpers lists the helper's volumes that no container uses. It checks each volume, since Podman reports volumes
// in use as dangling.
func (e containers) unusedHelpers(ctx context.Context) ([]string, error) {
	listed, err := e.Client.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).
		Add("name", helperPrefix)})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, v := range listed.Items {
		if strings.HasPrefix(v.Name, helperPrefix) { // the filter matches parts of names
			names = append(names, v.Name)
		}
	}
	return e.withoutContainer(ctx, names)
}

// withoutContainer returns the volumes that no container uses.
func (e containers) withoutContainer(ctx context.Context, volumes []string) ([]string, error) {
	var names []string
	for _, name := range volumes {
		users, err := e.Client.ContainerList(
			ctx, client.ContainerListOptions{All: true, Limit: 1, Filters: make(client.Filters).Add("volume", name)},
		)
		if err != nil {
			return nil, err
		}
		if len(users.Items) == 0 {
			names = append(names, name)
		}
	}
	return names, nil
}

// brokenOff lists the containers that fill a volume and are older than age.
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
