package docker

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
	"github.com/seed-0724f904/sb/core/providers/docker/image"
)

var (
	_ core.Snapshotter = (*Provider)(nil)
	_ core.Differ      = (*Provider)(nil)
)

// snapshotName is the prefix of a snapshot's default name.
const snapshotName = "localhost/sb-snapshot/"

// Snapshot implements core.Snapshotter. A snapshot is an image, which can be tagged, pushed and run.
func (p *Provider) Snapshot(ctx context.Context, id string, opts core.SnapshotOptions) (core.Snapshot, error) {
	name := opts.Name
	sb, err := p.Get(ctx, id)
	if err != nil {
		return core.Snapshot{}, err
	}
	e, err := p.connect(ctx)
	if err != nil {
		return core.Snapshot{}, err
	}
	if err := e.filesSeen(ctx, "snapshot", id); err != nil {
		return core.Snapshot{}, err
	}
	now := time.Now().UTC()
	if name == "" {
		name = snapshotName + strings.ToLower(sb.Name) + ":" + now.Format("20060102-150405")
	}
	if _, err := reference.ParseNormalizedNamed(name); err != nil {
		return core.Snapshot{}, core.Errorf(core.KindUsage, "docker.snapshot", name, "it is not an image's name: %w", err).
			WithHint("use lower case: localhost/dev:v1")
	}
	if err := e.replaceable(ctx, name, opts.Replace); err != nil {
		return core.Snapshot{}, err
	}
	from, err := p.containerImage(ctx, e, containerOf(id))
	if err != nil {
		return core.Snapshot{}, err
	}
	found, err := e.container(ctx, containerOf(id))
	if err != nil {
		return core.Snapshot{}, engine.Classify(ctx, "snapshot", id, err)
	}
	bounded, cancel := engine.Within(ctx, snapshotTimeout)
	defer cancel()
	committed, err := e.Client.ContainerCommit(bounded, containerOf(id), client.ContainerCommitOptions{
		Reference: name, Comment: "snapshot of sandbox " +
			sb.Name, Changes: append(restore(from, found.Config.Labels), "LABEL "+labelSnapshot+"="+sb.ID),
		// The first process's settings do not belong in the image.
		Config: &container.Config{StopSignal: from.StopSignal, Healthcheck: from.Healthcheck},
	})
	if err != nil {
		return core.Snapshot{}, engine.Classify(bounded, "snapshot", name, err)
	}
	snapshot := core.Snapshot{ID: name, Provider: Name, Sandbox: sb.ID, Created: now, Hint: "docker tag " + name +
		" REPOSITORY:TAG; docker push REPOSITORY:TAG"}
	if image, err := e.Client.ImageInspect(bounded, committed.ID); err == nil {
		snapshot.Size = core.Bytes(image.Size)
	}
	return snapshot, nil
}

// replaceable returns an error if an image of the name exists and must not be replaced.
func (e containers) replaceable(ctx context.Context, name string, replace bool) error {
	if replace {
		return nil
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	_, err := e.Client.ImageInspect(ctx, name)
	switch {
	case err == nil:
		return core.SnapshotExists(name)
	case errdefs.IsNotFound(err), errdefs.IsInvalidArgument(err): // the commit reports an invalid name
		return nil
	}
	return engine.Classify(ctx, "snapshot", name, err)
}

// snapshotTimeout bounds a commit, which copies all written files.
const snapshotTimeout = 30 * time.Minute

// restore lists the changes, as lines of a Dockerfile, that undo a sandbox's settings in an image: they restore the
// image's command and user, and remove the sandbox's labels.
func restore(i image.Image, labels map[string]string) []string {
	list := func(argv []string) string {
		text, err := json.Marshal(argv)
		if err != nil {
			return "[]"
		}
		return string(text)
	}
	cmd := i.Cmd
	if len(cmd) == 0 && len(i.Entrypoint) == 0 {
		cmd = []string{"/bin/sh"}
	}
	changes := []string{"CMD " + list(cmd)}
	if len(i.Entrypoint) > 0 {
		changes = append(changes, "ENTRYPOINT "+list(i.Entrypoint))
	}
	user, workdir := i.User, i.Workdir
	if user == "" {
		user = "root"
	}
	if workdir == "" {
		workdir = "/"
	}
	changes = append(changes, "USER "+user, "WORKDIR "+workdir)
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if strings.HasPrefix(label, "sb.") {
			changes = append(changes, "LABEL "+label+`=""`)
		}
	}
	return changes
}

// Diff implements core.Differ.
func (p *Provider) Diff(ctx context.Context, id string) ([]core.Change, error) {
	if _, err := p.Get(ctx, id); err != nil {
		return nil, err
	}
	k, err := p.knownOf(ctx, id)
	if err != nil {
		return nil, err
	}
	e, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.filesSeen(ctx, "diff", id); err != nil {
		return nil, err
	}
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	diff, err := e.Client.ContainerDiff(ctx, containerOf(id), client.ContainerDiffOptions{})
	if err != nil {
		return nil, engine.Classify(ctx, "diff", id, err)
	}
	kinds := map[container.ChangeType]string{
		container.ChangeModify: "changed", container.ChangeAdd: "added", container.ChangeDelete: "deleted",
	}
	changes := []core.Change{}
	for _, change := range diff.Changes {
		// The engine's own mount points and the helper's directory are not changes of the sandbox.
		if change.Path == string(k.dir) || slices.Contains(
			[]string{
				"/dev", "/proc", "/sys", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/etc/mtab", "/run/.containerenv",
			},
			change.Path,
		) {
			continue
		}
		// Podman also reports the directories of its own files as changed.
		if change.Kind == container.ChangeModify && (change.Path == "/etc" || change.Path == "/run") {
			continue
		}
		changes = append(changes, core.Change{Path: change.Path, Kind: kinds[change.Kind]})
	}
	return ownChanges(changes), nil
}

// ownChanges sorts changes and removes directories that are listed only for changes below them.
func ownChanges(changes []core.Change) []core.Change {
	slices.SortFunc(changes, func(a, b core.Change) int { return strings.Compare(a.Path, b.Path) })
	own := make([]core.Change, 0, len(changes))
	for _, c := range changes {
		first, _ := slices.BinarySearchFunc(changes, c.Path+"/", func(c core.Change, path string) int {
			return strings.Compare(c.Path, path)
		})
		if c.Kind == "changed" && first < len(changes) && strings.HasPrefix(changes[first].Path, c.Path+"/") {
			continue
		}
		own = append(own, c)
	}
	return own
}
