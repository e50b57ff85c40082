package modaltest

import (
	"context"
	"fmt"
	"os"
	"path"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// forever is the time to live of an image that does not expire.
const forever = -1

// packDirectory packs a directory's content.
const packDirectory = `tar --create --directory="$1" --file=- .`

// TaskSnapshotFilesystem creates an image of a sandbox's current filesystem.
func (r *router) TaskSnapshotFilesystem(
	ctx context.Context, request *pb.TaskSnapshotFilesystemRequest,
) (*pb.TaskSnapshotFilesystemResponse, error) {
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	made := box.below.child()
	if made.snapshot, err = r.server.keep(ctx, box.backend.ID, made.id); err != nil {
		return nil, statusOf(err)
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.server.addImage(made, request.GetTtlSeconds())
	return pb.TaskSnapshotFilesystemResponse_builder{ImageId: made.id}.Build(), nil
}

// TaskSnapshotDirectory creates an image of one directory.
func (r *router) TaskSnapshotDirectory(
	ctx context.Context, request *pb.TaskSnapshotDirectoryRequest,
) (*pb.TaskSnapshotDirectoryResponse, error) {
	if len(request.GetCustomerSuppliedEncryptionKey()) > 0 {
		return nil, status.Error(codes.Unimplemented, "this server does not encrypt snapshots")
	}
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	s := r.server
	file, err := os.CreateTemp(s.dir, "layer-*.tar")
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	err = s.shell(ctx, box.backend.ID, nil, file, packDirectory, path.Clean(string(request.GetPath())))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made := box.below.child()
	made.archive = file.Name()
	s.addImage(made, request.GetTtlSeconds())
	return pb.TaskSnapshotDirectoryResponse_builder{ImageId: made.id}.Build(), nil
}

// child returns a new image for the snapshot of a sandbox from this one.
func (i *image) child() *image {
	return &image{
		id: newID("im-"), base: i.base, registryName: i.registryName, env: i.env, workdir: i.workdir, result: success(),
		done: make(chan struct{}),
	}
}

// addImage stores an image. The caller holds mu.
func (s *Server) addImage(made *image, ttl int64) {
	close(made.done)
	if ttl != forever && ttl != 0 {
		made.expire = time.Now().Add(time.Duration(ttl) * time.Second)
	}
	s.images[made.id] = made
}

// TaskMountDirectory puts an image, or nothing, at a directory. It makes a copy, because a running sandbox cannot get a
// mount.
func (r *router) TaskMountDirectory(
	ctx context.Context, request *pb.TaskMountDirectoryRequest,
) (*emptypb.Empty, error) {
	if len(request.GetCustomerSuppliedEncryptionKey()) > 0 {
		return nil, status.Error(codes.Unimplemented, "this server does not encrypt snapshots")
	}
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	s := r.server
	archive := ""
	if id := request.GetImageId(); id != "" {
		s.mu.Lock()
		shown, err := s.imageReady(id)
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if archive = shown.archive; archive == "" && shown.snapshot != "" {
			if archive, err = s.pack(ctx, shown); err != nil {
				return nil, statusOf(err)
			}
			defer func() { _ = os.Remove(archive) }()
		}
	}
	target := path.Clean(string(request.GetPath()))
	// The old directory moves aside. Unmounting restores it.
	aside := fmt.Sprintf("/.modal-mounts%s", target)
	err = s.shell(ctx, box.backend.ID, nil, nil, `test -d "$1" || { echo "there is no directory $1" >&2; exit 1; }
mkdir -p "$2" && rmdir "$2" && mv "$1" "$2" && mkdir "$1"`, target, aside)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if archive != "" {
		if err := s.unpackInto(ctx, box.backend.ID, archive, target); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &emptypb.Empty{}, nil
}

// TaskUnmountDirectory removes a mount.
func (r *router) TaskUnmountDirectory(
	ctx context.Context, request *pb.TaskUnmountDirectoryRequest,
) (*emptypb.Empty, error) {
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	target := path.Clean(string(request.GetPath()))
	err = r.server.shell(ctx, box.backend.ID, nil, nil, `test -d "$2" || { echo "nothing is mounted at $1" >&2; exit 1; }
rm -rf "$1" && mv "$2" "$1"`, target, "/.modal-mounts"+target)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &emptypb.Empty{}, nil
}
