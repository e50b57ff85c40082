package modaltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-0724f904/sb/core"
)

// VolumeGetOrCreate finds a volume or makes it.
func (s *Server) VolumeGetOrCreate(_ context.Context, r *pb.VolumeGetOrCreateRequest) (*pb.VolumeGetOrCreateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	environment := environmentName(r.GetEnvironmentName())
	creation := r.GetObjectCreationType()
	var found *volume
	if creation != pb.ObjectCreationType_OBJECT_CREATION_TYPE_EPHEMERAL {
		for _, candidate := range s.volumes {
			if candidate.name != "" && candidate.name == r.GetDeploymentName() && candidate.environment == environment {
				found = candidate
			}
		}
	}
	if found == nil && creation == pb.ObjectCreationType_OBJECT_CREATION_TYPE_UNSPECIFIED {
		return nil, status.Errorf(codes.NotFound, "Volume '%s' not found in environment '%s'", r.GetDeploymentName(), environment)
	}
	if found != nil && creation == pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS {
		return nil, status.Errorf(codes.AlreadyExists, "Volume '%s' already exists", r.GetDeploymentName())
	}
	if found == nil {
		version := r.GetVersion()
		if version == pb.VolumeFsVersion_VOLUME_FS_VERSION_UNSPECIFIED {
			version = pb.VolumeFsVersion_VOLUME_FS_VERSION_V1
		}
		found = &volume{id: newID("vo-"), environment: environment, name: r.GetDeploymentName(), version: version, created: time.Now()}
		found.dir = filepath.Join(s.dir, found.id+".tar")
		s.volumes[found.id] = found
	}
	return pb.VolumeGetOrCreateResponse_builder{
		VolumeId: found.id, Version: found.version, Metadata: pb.VolumeMetadata_builder{Version: found.version, Name: found.name}.Build(),
	}.Build(), nil
}

// VolumeHeartbeat keeps an ephemeral volume.
func (s *Server) VolumeHeartbeat(context.Context, *pb.VolumeHeartbeatRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// VolumeDelete forgets a volume.
func (s *Server) VolumeDelete(_ context.Context, r *pb.VolumeDeleteRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.volumes[r.GetVolumeId()] == nil {
		return nil, status.Error(codes.NotFound, "Volume not found")
	}
	delete(s.volumes, r.GetVolumeId())
	return &emptypb.Empty{}, nil
}

// VolumeList lists an environment's named volumes.
func (s *Server) VolumeList(_ context.Context, r *pb.VolumeListRequest) (*pb.VolumeListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []*pb.VolumeListItem
	for _, found := range s.volumes {
		if found.name != "" && found.environment == environmentName(r.GetEnvironmentName()) {
			items = append(items, pb.VolumeListItem_builder{
				Label: found.name, VolumeId: found.id, CreatedAt: unix(found.created), Metadata: pb.VolumeMetadata_builder{Version: found.version, Name: found.name}.Build(),
			}.Build())
		}
	}
	slices.SortFunc(items, func(a, b *pb.VolumeListItem) int { return cmp.Compare(a.GetLabel(), b.GetLabel()) })
	return pb.VolumeListResponse_builder{Items: items}.Build(), nil
}

// mounted lists a sandbox's volumes with where they are.
func (s *Server) mounted(box *sandbox) map[*pb.VolumeMount]*volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	mounts := map[*pb.VolumeMount]*volume{}
	for _, mount := range box.definition.GetVolumeMounts() {
		if found := s.volumes[mount.GetVolumeId()]; found != nil {
			mounts[mount] = found
		}
	}
	return mounts
}

// fillVolumes copies what was committed into a sandbox's mount points: a sandbox sees a volume as it
// was when it began or last reloaded, as on Modal.
func (s *Server) fillVolumes(ctx context.Context, box *sandbox, id string) error {
	for mount, from := range s.mounted(box) {
		target := path.Clean(mount.GetMountPath())
		if err := s.makeDirectory(ctx, id, target); err != nil {
			return err
		}
		from.lock.Lock()
		err := s.fillVolume(ctx, id, from.dir, target, mount.GetSubPath())
		from.lock.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// fillVolume unpacks a volume, or the part of it below sub, into a directory.
func (s *Server) fillVolume(ctx context.Context, id, archive, target, sub string) error {
	file, err := os.Open(archive)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	script := `tar --extract --preserve-permissions --directory="$1" --file=-`
	if sub = path.Clean("/" + sub); sub != "/" {
		script = `d=$(mktemp -d) && tar --extract --preserve-permissions --directory="$d" --file=- && if [ -d "$d$2" ]; then cp -a "$d$2/." "$1/"; fi; rm -rf "$d"`
	}
	return s.shell(ctx, id, file, nil, script, target, sub)
}

// shell runs a script in a backend's sandbox and demands that it succeeds.
func (s *Server) shell(ctx context.Context, id string, stdin io.Reader, stdout io.Writer, script string, args ...string) error {
	var complaints textBuffer
	process, err := s.opts.Backend.Exec(ctx, id, core.ExecSpec{Command: append([]string{"sh", "-c", script, "sh"}, args...), Stdin: stdin, Stdout: stdout, Stderr: &complaints})
	if err != nil {
		return err
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(ctx)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("a helper command ended with %d: %s", exit.Code, complaints.text)
	}
	return err
}

// textBuffer keeps the beginning of what is written to it.
type textBuffer struct{ text []byte }

func (b *textBuffer) Write(p []byte) (int, error) {
	if room := 4096 - len(b.text); room > 0 {
		b.text = append(b.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// commitVolumes makes what a sandbox wrote to its volumes theirs.
func (s *Server) commitVolumes(ctx context.Context, box *sandbox) error {
	var errs []error
	for mount, into := range s.mounted(box) {
		if !mount.GetReadOnly() {
			errs = append(errs, s.commitVolume(ctx, box.backend.ID, mount, into))
		}
	}
	return errors.Join(errs...)
}

// commitVolume packs a mount point over the volume's last state: files that another sandbox
// committed since stay unless this one has them, too.
func (s *Server) commitVolume(ctx context.Context, id string, mount *pb.VolumeMount, into *volume) error {
	into.lock.Lock()
	defer into.lock.Unlock()
	file, err := os.CreateTemp(s.dir, "volume-*.tar")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer func() { _ = file.Close() }()
	var old io.Reader
	if committed, err := os.Open(into.dir); err == nil {
		defer func() { _ = committed.Close() }()
		old = committed
	}
	script := `d=$(mktemp -d) && mkdir -p "$d$2" && { tar --extract --preserve-permissions --directory="$d" --file=- 2>/dev/null || :; } && cp -a "$1/." "$d$2/" && tar --create --directory="$d" --file=- . && rm -rf "$d"`
	err = s.shell(ctx, id, old, file, script, path.Clean(mount.GetMountPath()), path.Clean("/"+mount.GetSubPath()))
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), into.dir)
}

// TaskReloadVolumes commits what a sandbox wrote and shows it what others committed.
func (r *router) TaskReloadVolumes(ctx context.Context, request *pb.TaskReloadVolumesRequest) (*pb.TaskReloadVolumesResponse, error) {
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	err = r.server.commitVolumes(ctx, box)
	if err == nil {
		err = r.server.fillVolumes(ctx, box, box.backend.ID)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &pb.TaskReloadVolumesResponse{}, nil
}
