package modaltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"strings"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-0724f904/sb/core"
)

// image is a base of the backend and the changes on top of it.
type image struct {
	id           string
	base         string // the backend's image
	registryName string // the name of the registry image below
	// definition is the client's request; nil if the image was not built.
	definition *pb.Image
	env        map[string]string
	workdir    string
	// snapshot is the backend's snapshot with all changes; "" means the base alone.
	snapshot string
	// archive is a tar of the directory if the image is a snapshot of a directory.
	archive string
	expire  time.Time
	result  *pb.GenericResult
	done    chan struct{}
	log     []string // the build's output, guarded by Server.mu
}

// python reports whether the image is based on a Python image, which has a program of that name.
func (i *image) python() bool {
	name, _, _ := strings.Cut(path.Base(i.registryName), ":")
	return name == "python"
}

func success() *pb.GenericResult {
	return pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_SUCCESS}.Build()
}

// ImageDefinition returns the definition of an image. It is nil if the image does not exist or was not built.
func (s *Server) ImageDefinition(id string) *pb.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.images[id]; found != nil {
		return found.definition
	}
	return nil
}

// ImageGetOrCreate finds an image by its recipe or starts its build.
func (s *Server) ImageGetOrCreate(
	ctx context.Context, r *pb.ImageGetOrCreateRequest,
) (*pb.ImageGetOrCreateResponse, error) {
	registry := r.GetImage().GetImageRegistryConfig()
	recipe, err := json.Marshal(struct {
		Commands, Secrets []string
		Bases             []string
		Registry          string
	}{r.GetImage().GetDockerfileCommands(), r.GetImage().GetSecretIds(), baseIDs(r.GetImage()), registry.GetSecretId()})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	digest := sha256.Sum256(recipe)
	key := hex.EncodeToString(digest[:])

	s.mu.Lock()
	defer s.mu.Unlock()
	if id, known := s.builds[key]; known && !r.GetForceBuild() {
		if found := s.images[id]; found != nil && (found.result == nil ||
			found.result.GetStatus() == pb.GenericResult_GENERIC_STATUS_SUCCESS) {
			return pb.ImageGetOrCreateResponse_builder{
				ImageId: id, Result: found.result, Metadata: &pb.ImageMetadata{},
			}.Build(), nil
		}
	}
	if err := s.checkRegistry(registry); err != nil {
		return nil, err
	}
	built, steps, err := s.plan(r.GetImage())
	if err != nil {
		return nil, err
	}
	if registry.GetSecretId() != "" {
		s.log.WarnContext(
			ctx, "recorded, without effect here", "image", built.registryName, "settings", []string{"registry credentials"},
		)
	}
	s.images[built.id], s.builds[key] = built, built.id
	if len(steps) == 0 {
		built.result = success()
		close(built.done)
		return pb.ImageGetOrCreateResponse_builder{
			ImageId: built.id, Result: built.result, Metadata: &pb.ImageMetadata{},
		}.Build(), nil
	}
	env, err := s.environmentOf(r.GetImage().GetSecretIds(), nil)
	if err != nil {
		return nil, err
	}
	s.work.Go(func() { s.build(built, steps, env) })
	return pb.ImageGetOrCreateResponse_builder{ImageId: built.id, Metadata: &pb.ImageMetadata{}}.Build(), nil
}

// checkRegistry rejects an image of a private registry unless its secret has the variables of the SDK's own tests. The
// caller holds mu.
func (s *Server) checkRegistry(config *pb.ImageRegistryConfig) error {
	var required []string
	switch config.GetRegistryAuthType() {
	case pb.RegistryAuthType_REGISTRY_AUTH_TYPE_STATIC_CREDS:
		required = []string{"REGISTRY_USERNAME", "REGISTRY_PASSWORD"}
	case pb.RegistryAuthType_REGISTRY_AUTH_TYPE_AWS:
		required = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
	case pb.RegistryAuthType_REGISTRY_AUTH_TYPE_GCP:
		required = []string{"SERVICE_ACCOUNT_JSON"}
	case pb.RegistryAuthType_REGISTRY_AUTH_TYPE_UNSPECIFIED, pb.RegistryAuthType_REGISTRY_AUTH_TYPE_PUBLIC:
		return nil
	}
	found := s.secrets[config.GetSecretId()]
	if found == nil {
		return status.Errorf(codes.NotFound, "Secret '%s' not found", config.GetSecretId())
	}
	for _, key := range required {
		if found.env[key] == "" {
			return status.Errorf(codes.InvalidArgument, "Secret '%s' is missing key(s): %s", found.name, key)
		}
	}
	return nil
}

func baseIDs(definition *pb.Image) []string {
	var ids []string
	for _, base := range definition.GetBaseImages() {
		ids = append(ids, base.GetDockerTag()+"="+base.GetImageId())
	}
	return ids
}

// from sets the base of an image. The caller holds mu.
func (s *Server) from(built *image, definition *pb.Image, name string) error {
	for _, base := range definition.GetBaseImages() {
		if base.GetDockerTag() != name {
			continue
		}
		below := s.images[base.GetImageId()]
		if below == nil || below.result.GetStatus() != pb.GenericResult_GENERIC_STATUS_SUCCESS {
			return status.Errorf(codes.NotFound, "Image '%s' not found", base.GetImageId())
		}
		built.base, built.registryName, built.workdir = below.base, below.registryName, below.workdir
		built.snapshot = below.snapshot
		maps.Copy(built.env, below.env)
		return nil
	}
	built.registryName = name
	if caps := s.opts.Backend.Capabilities(); caps.Can(core.CapImages) && name != "scratch" {
		built.base = name
	} else if len(caps.Images) > 0 {
		built.base = caps.Images[0]
	}
	return nil
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ImageJoinStreaming streams the progress of a build until its end.
func (s *Server) ImageJoinStreaming(
	r *pb.ImageJoinStreamingRequest, stream pb.ModalClient_ImageJoinStreamingServer,
) error {
	s.mu.Lock()
	built := s.images[r.GetImageId()]
	s.mu.Unlock()
	if built == nil {
		return status.Errorf(codes.NotFound, "Image '%s' not found", r.GetImageId())
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	sent := 0
	for {
		over := false
		select {
		case <-built.done:
			over = true
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-tick.C:
		}
		s.mu.Lock()
		fresh := built.log[sent:]
		sent = len(built.log)
		s.mu.Unlock()
		var logs []*pb.TaskLogs
		for _, text := range fresh {
			logs = append(
				logs,
				pb.TaskLogs_builder{
					Data: text, Timestamp: unix(time.Now()), FileDescriptor: pb.FileDescriptor_FILE_DESCRIPTOR_STDOUT,
				}.Build(),
			)
		}
		if over {
			return stream.Send(pb.ImageJoinStreamingResponse_builder{Result: built.result, TaskLogs: logs, Eof: true}.Build())
		}
		if len(logs) > 0 {
			if err := stream.Send(pb.ImageJoinStreamingResponse_builder{TaskLogs: logs}.Build()); err != nil {
				return err
			}
		}
	}
}

// imageReady returns an image from which sandboxes can start. The caller holds mu.
func (s *Server) imageReady(id string) (*image, error) {
	found := s.images[id]
	if found == nil || !found.expire.IsZero() && time.Now().After(found.expire) {
		return nil, status.Errorf(codes.NotFound, "Image '%s' not found", id)
	}
	if found.result.GetStatus() != pb.GenericResult_GENERIC_STATUS_SUCCESS {
		return nil, status.Errorf(codes.FailedPrecondition, "Image '%s' is not built", id)
	}
	return found, nil
}

// ImageFromId finds an image.
//
//nolint:revive // its name is the protocol's
func (s *Server) ImageFromId(_ context.Context, r *pb.ImageFromIdRequest) (*pb.ImageFromIdResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.images[r.GetImageId()]
	if found == nil {
		return nil, status.Errorf(codes.NotFound, "Image '%s' not found", r.GetImageId())
	}
	return pb.ImageFromIdResponse_builder{ImageId: found.id, Metadata: &pb.ImageMetadata{}}.Build(), nil
}

// ImageDelete removes an image. Sandboxes from it keep running.
func (s *Server) ImageDelete(ctx context.Context, r *pb.ImageDeleteRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.images[r.GetImageId()]
	if found == nil {
		return nil, status.Errorf(codes.NotFound, "Image '%s' not found", r.GetImageId())
	}
	delete(s.images, r.GetImageId())
	s.dropSnapshot(ctx, found)
	return &emptypb.Empty{}, nil
}

// imageTag returns an image's name with its tag.
func imageTag(tag string) string {
	if !strings.Contains(tag, ":") {
		return tag + ":latest"
	}
	return tag
}

// ImagePublish publishes an image under a name.
func (s *Server) ImagePublish(_ context.Context, r *pb.ImagePublishRequest) (*pb.ImagePublishResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.imageReady(r.GetImageId()); err != nil {
		return nil, err
	}
	name, now := objectName{environmentName(r.GetEnvironmentName()), imageTag(r.GetTag())}, time.Now()
	tag, known := s.tags[name]
	if !known {
		tag.created = now
	}
	tag.image, tag.updated = r.GetImageId(), now
	s.tags[name] = tag
	return pb.ImagePublishResponse_builder{ImageId: r.GetImageId(), RevisionId: newID("ir-")}.Build(), nil
}

// ImageGetByTag finds an image by its name.
func (s *Server) ImageGetByTag(_ context.Context, r *pb.ImageGetByTagRequest) (*pb.ImageGetByTagResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.tags[objectName{environmentName(r.GetEnvironmentName()), imageTag(r.GetTag())}].image
	if s.images[id] == nil {
		return nil, status.Errorf(codes.NotFound, "Image '%s' not found", r.GetTag())
	}
	return pb.ImageGetByTagResponse_builder{ImageId: id}.Build(), nil
}
