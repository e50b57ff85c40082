package modaltest

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// commitEvery is the interval between commits of a sandbox's writes to its volumes.
const commitEvery = 5 * time.Second

// mount is one sandbox's view of a volume. Its folder has the content of the last start or reload, and the sandbox's
// own writes.
type mount struct {
	volume   *volume
	sub      string
	dir      string
	readOnly bool

	mu sync.Mutex
	// known is the state that both sides had at the last sync.
	known tree
}

func (s *Server) mountDir(box *sandbox) string { return filepath.Join(s.dir, "mounts", box.task) }

// mount creates the folders of a sandbox's volumes and buckets, and returns their mounts.
func (s *Server) mount(box *sandbox) ([]core.Volume, error) {
	var seen []core.Volume
	for i, asked := range box.definition.GetVolumeMounts() {
		s.mu.Lock()
		found := s.volumes[asked.GetVolumeId()]
		s.mu.Unlock()
		if found == nil {
			return nil, status.Errorf(codes.NotFound, "Volume '%s' not found", asked.GetVolumeId())
		}
		m := &mount{
			volume: found, sub: strings.TrimPrefix(path.Clean("/"+asked.GetSubPath()), "/"), readOnly: asked.GetReadOnly(),
			dir: filepath.Join(s.mountDir(box), strconv.Itoa(i)), known: tree{},
		}
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return nil, err
		}
		if err := m.fill(); err != nil {
			return nil, err
		}
		box.mounts = append(box.mounts, m)
		seen = append(
			seen, core.Volume{Source: m.dir, Target: path.Clean(asked.GetMountPath()), ReadOnly: asked.GetReadOnly()},
		)
	}
	for _, asked := range box.definition.GetCloudBucketMounts() {
		dir := filepath.Join(s.opts.Buckets[asked.GetBucketName()], filepath.FromSlash(path.Clean("/"+asked.GetKeyPrefix())))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		seen = append(seen, core.Volume{Source: dir, Target: path.Clean(asked.GetMountPath()), ReadOnly: asked.GetReadOnly()})
	}
	return seen, nil
}

// checkMounts rejects a definition whose mounts are not possible. The caller holds mu.
func (s *Server) checkMounts(d *pb.Sandbox) error {
	if len(d.GetVolumeMounts())+len(d.GetCloudBucketMounts()) > 0 && !s.opts.Backend.Capabilities().Can(core.CapVolumes) {
		return status.Error(codes.Unimplemented, "this server's sandboxes cannot have volumes")
	}
	for _, mount := range d.GetVolumeMounts() {
		if s.volumes[mount.GetVolumeId()] == nil {
			return status.Errorf(codes.NotFound, "Volume '%s' not found", mount.GetVolumeId())
		}
	}
	for _, mount := range d.GetCloudBucketMounts() {
		if s.opts.Buckets[mount.GetBucketName()] == "" {
			return status.Errorf(
				codes.NotFound, "Bucket '%s' not found: add it to this server with --bucket NAME=DIR",
				mount.GetBucketName(),
			)
		}
		if id := mount.GetCredentialsSecretId(); id != "" && s.secrets[id] == nil {
			return status.Errorf(codes.NotFound, "Secret '%s' not found", id)
		}
	}
	return nil
}

// fill copies the commits of others into the folder.
func (m *mount) fill() error {
	return m.sync(func(volume, folder *os.Root) error {
		now, err := scan(volume)
		if err != nil {
			return err
		}
		err = carry(volume, folder, m.known, now)
		if err == nil { // otherwise the next sync repeats all of it
			m.known = now
		}
		return err
	})
}

// commit copies the sandbox's writes into the volume. If several sandboxes wrote a file, the last commit wins.
func (m *mount) commit() error {
	if m.readOnly {
		return nil
	}
	return m.sync(func(volume, folder *os.Root) error {
		now, err := scan(folder)
		if err != nil {
			return err
		}
		err = carry(folder, volume, m.known, now)
		if err == nil { // otherwise the next sync repeats all of it
			m.known = now
		}
		return err
	})
}

// sync calls do with both sides while it holds the locks of both.
func (m *mount) sync(do func(volume, folder *os.Root) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volume.lock.Lock()
	defer m.volume.lock.Unlock()
	volume, err := os.OpenRoot(m.volume.dir)
	if err != nil {
		return err
	}
	defer func() { _ = volume.Close() }()
	if m.sub != "" {
		if err := volume.MkdirAll(m.sub, 0o755); err != nil {
			return err
		}
		below, err := volume.OpenRoot(m.sub)
		if err != nil {
			return err
		}
		defer func() { _ = below.Close() }()
		volume = below
	}
	folder, err := os.OpenRoot(m.dir)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return do(volume, folder)
}

// commit copies the sandbox's writes into all its volumes.
func (b *sandbox) commit() error {
	var errs []error
	for _, m := range b.mounts {
		errs = append(errs, m.commit())
	}
	return errors.Join(errs...)
}

// TaskReloadVolumes commits a sandbox's writes and loads the commits of others.
func (r *router) TaskReloadVolumes(
	ctx context.Context, request *pb.TaskReloadVolumesRequest,
) (*pb.TaskReloadVolumesResponse, error) {
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	err = box.commit()
	for _, m := range box.mounts {
		err = errors.Join(err, m.fill())
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &pb.TaskReloadVolumesResponse{}, nil
}
