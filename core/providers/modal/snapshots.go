package modal

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

const (
	// snapshotTag is the tag of images that are snapshots of sb. They need a name, because Modal lists only named images.
	snapshotTag = "sb-snapshot"
	// defaultTTL is the default lifetime of a snapshot in Modal's own tools.
	defaultTTL = 30 * 24 * time.Hour
	// noExpiry is Modal's lifetime, in seconds, of a snapshot that never expires.
	noExpiry = -1
)

// snapshotName returns the image name for a snapshot's name.
func snapshotName(name string) string {
	if strings.Contains(name, ":") {
		return name
	}
	return name + ":" + snapshotTag
}

// Snapshot implements core.Snapshotter. A snapshot is an image at Modal. Without a name it gets a random one.
func (p *Provider) Snapshot(ctx context.Context, id string, opts core.SnapshotOptions) (core.Snapshot, error) {
	if strings.HasPrefix(opts.Name, imagePrefix) || strings.ContainsAny(opts.Name, ":/ ") {
		return core.Snapshot{}, core.Errorf(
			core.KindUsage, "modal.snapshot", opts.Name,
			"a snapshot's name has no colon, slash or blank at Modal and does not begin with im-",
		)
	}
	if opts.Name != "" && !opts.Replace {
		known, err := p.Snapshots(ctx)
		if err != nil {
			return core.Snapshot{}, err
		}
		if slices.ContainsFunc(known, func(s core.Snapshot) bool { return s.Name == opts.Name }) {
			return core.Snapshot{}, core.SnapshotExists(opts.Name)
		}
	}
	r, err := p.router(ctx, id, false)
	if err != nil {
		return core.Snapshot{}, err
	}
	made := core.Snapshot{Name: opts.Name, Provider: Name, Sandbox: id, Path: opts.Path, Created: time.Now().UTC()}
	seconds := int64(defaultTTL / time.Second)
	switch {
	case opts.NoExpiry:
		seconds = noExpiry
	case opts.TTL > 0:
		seconds = int64(wholeSeconds(opts.TTL) / time.Second)
	}
	if seconds > 0 {
		made.Expires = made.Created.Add(time.Duration(seconds) * time.Second)
	}
	if made.ID, err = r.snapshot(ctx, opts.Path, seconds); err != nil {
		return core.Snapshot{}, p.failed(ctx, "snapshot", id, err)
	}
	if !made.Expires.IsZero() {
		r.client.Cache.Put(client.CachedEnds, made.ID, made.Expires.Format(time.RFC3339))
	}
	if made.Name == "" {
		made.Name = core.NewName() // Modal does not list images without a name
	}
	raw, err := r.client.Raw(ctx)
	if err == nil {
		_, err = raw.ImagePublish(ctx, pb.ImagePublishRequest_builder{
			ImageId: made.ID, EnvironmentName: r.client.Account.Environment, Tag: snapshotName(made.Name),
		}.Build())
	}
	return made, client.Classify("snapshot", made.ID, err)
}

// snapshot stores the whole filesystem or one directory as an image. All retries have the same id, so they make one
// snapshot.
func (r *router) snapshot(ctx context.Context, path string, seconds int64) (string, error) {
	key := uuid.NewString()
	if path != "" {
		reply, err := call(ctx, r, func(ctx context.Context) (*pb.TaskSnapshotDirectoryResponse, error) {
			return r.stub.TaskSnapshotDirectory(ctx, pb.TaskSnapshotDirectoryRequest_builder{
				TaskId: r.task, SnapshotId: key, Path: []byte(path), TtlSeconds: &seconds,
			}.Build())
		})
		return reply.GetImageId(), err
	}
	reply, err := call(ctx, r, func(ctx context.Context) (*pb.TaskSnapshotFilesystemResponse, error) {
		return r.stub.TaskSnapshotFilesystem(
			ctx, pb.TaskSnapshotFilesystemRequest_builder{TaskId: r.task, SnapshotId: key, TtlSeconds: &seconds}.Build(),
		)
	})
	return reply.GetImageId(), err
}

// Snapshots implements core.SnapshotStore. It returns only named snapshots, because Modal lists no others. A snapshot's
// expiry is known only on the machine that made it.
func (p *Provider) Snapshots(ctx context.Context) ([]core.Snapshot, error) {
	tags, err := p.imageTags(ctx, "snapshot")
	if err != nil || len(tags) == 0 {
		return nil, err
	}
	c, err := p.connect()
	if err != nil {
		return nil, err
	}
	var snapshots []core.Snapshot
	for _, item := range tags {
		name, ours := strings.CutSuffix(item.GetTag(), ":"+snapshotTag)
		if !ours {
			continue
		}
		// zero when the cache does not have it
		end, _ := time.Parse(time.RFC3339, c.Cache.Get(client.CachedEnds, item.GetImageId()))
		snapshots = append(
			snapshots,
			core.Snapshot{
				ID: item.GetImageId(), Name: name, Provider: Name, Created: fromUnix(item.GetUpdatedAt()), Expires: end,
			},
		)
	}
	return snapshots, nil
}

// RemoveSnapshot implements core.SnapshotStore.
func (p *Provider) RemoveSnapshot(ctx context.Context, id string) error {
	if !strings.HasPrefix(id, imagePrefix) {
		id = snapshotName(id)
	}
	return p.removeImage(ctx, "snapshot", id)
}

// MountImage implements core.ImageMounter.
func (p *Provider) MountImage(ctx context.Context, id, image, target string) error {
	r, err := p.router(ctx, id, false)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(image, imagePrefix) {
		// It is the name of a directory's snapshot or of a published image.
		name := snapshotName(image)
		if published, ok := strings.CutPrefix(image, publishedPrefix); ok {
			name = published
		}
		if image, err = p.imageByName(ctx, name); err != nil {
			return err
		}
	}
	_, err = call(ctx, r, func(ctx context.Context) (any, error) {
		return r.stub.TaskMountDirectory(
			ctx, pb.TaskMountDirectoryRequest_builder{TaskId: r.task, Path: []byte(target), ImageId: image}.Build(),
		)
	})
	return p.failed(ctx, "mount", id, err)
}

// UnmountImage implements core.ImageMounter.
func (p *Provider) UnmountImage(ctx context.Context, id, target string) error {
	r, err := p.router(ctx, id, false)
	if err != nil {
		return err
	}
	_, err = call(ctx, r, func(ctx context.Context) (any, error) {
		return r.stub.TaskUnmountDirectory(
			ctx, pb.TaskUnmountDirectoryRequest_builder{TaskId: r.task, Path: []byte(target)}.Build(),
		)
	})
	return p.failed(ctx, "unmount", id, err)
}
