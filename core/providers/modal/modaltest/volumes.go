package modaltest

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// VolumeGetOrCreate finds or creates a volume.
func (s *Server) VolumeGetOrCreate(
	_ context.Context, r *pb.VolumeGetOrCreateRequest,
) (*pb.VolumeGetOrCreateResponse, error) {
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
		return nil, status.Errorf(
			codes.NotFound, "Volume '%s' not found in environment '%s'", r.GetDeploymentName(), environment,
		)
	}
	if found != nil && creation == pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS {
		return nil, status.Errorf(codes.AlreadyExists, "Volume '%s' already exists", r.GetDeploymentName())
	}
	if found == nil {
		version := r.GetVersion()
		if version == pb.VolumeFsVersion_VOLUME_FS_VERSION_UNSPECIFIED {
			version = pb.VolumeFsVersion_VOLUME_FS_VERSION_V1
		}
		found = &volume{
			id: newID("vo-"), environment: environment, name: r.GetDeploymentName(), version: version, created: time.Now(),
		}
		found.dir = filepath.Join(s.dir, found.id)
		if err := os.Mkdir(found.dir, 0o755); err != nil {
			return nil, status.Error(codes.ResourceExhausted, err.Error())
		}
		s.volumes[found.id] = found
	}
	return pb.VolumeGetOrCreateResponse_builder{
		VolumeId: found.id, Version: found.version,
		Metadata: pb.VolumeMetadata_builder{Version: found.version, Name: found.name}.Build(),
	}.Build(), nil
}

// VolumeHeartbeat keeps an ephemeral volume alive.
func (s *Server) VolumeHeartbeat(context.Context, *pb.VolumeHeartbeatRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// VolumeDelete removes a volume.
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
				Label: found.name, VolumeId: found.id, CreatedAt: unix(found.created),
				Metadata: pb.VolumeMetadata_builder{Version: found.version, Name: found.name}.Build(),
			}.Build())
		}
	}
	slices.SortFunc(items, func(a, b *pb.VolumeListItem) int { return cmp.Compare(a.GetLabel(), b.GetLabel()) })
	return pb.VolumeListResponse_builder{Items: items}.Build(), nil
}
