package modaltest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// EnvironmentGetOrCreate finds an environment. It creates a missing one, because Modal's test suites expect theirs to
// exist.
func (s *Server) EnvironmentGetOrCreate(
	_ context.Context, r *pb.EnvironmentGetOrCreateRequest,
) (*pb.EnvironmentGetOrCreateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	env := s.environment(r.GetDeploymentName())
	return pb.EnvironmentGetOrCreateResponse_builder{
		EnvironmentId: env.id,
		Metadata: pb.EnvironmentMetadata_builder{
			Name:     env.name,
			Settings: pb.EnvironmentSettings_builder{ImageBuilderVersion: "2025.06"}.Build(),
		}.Build(),
	}.Build(), nil
}

// environment finds or creates an environment. The caller holds mu.
func (s *Server) environment(name string) *environment {
	name = environmentName(name)
	env := s.environments[name]
	if env == nil {
		env = &environment{id: newID("en-"), name: name, created: time.Now()}
		s.environments[name] = env
	}
	return env
}

// EnvironmentList lists the environments.
func (s *Server) EnvironmentList(context.Context, *emptypb.Empty) (*pb.EnvironmentListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []*pb.EnvironmentListItem
	for _, env := range s.environments {
		items = append(items, pb.EnvironmentListItem_builder{
			Name: env.name, EnvironmentId: env.id, CreatedAt: unix(env.created), Default: env.name == defaultEnvironment,
		}.Build())
	}
	slices.SortFunc(items, func(a, b *pb.EnvironmentListItem) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return pb.EnvironmentListResponse_builder{Items: items}.Build(), nil
}

// EnvironmentCreate creates an environment.
func (s *Server) EnvironmentCreate(_ context.Context, r *pb.EnvironmentCreateRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.environments[r.GetName()] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Environment '%s' already exists", r.GetName())
	}
	s.environment(r.GetName())
	return &emptypb.Empty{}, nil
}

// EnvironmentDelete removes an environment with everything in it.
func (s *Server) EnvironmentDelete(ctx context.Context, r *pb.EnvironmentDeleteRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	if s.environments[r.GetName()] == nil {
		s.mu.Unlock()
		return nil, status.Errorf(codes.NotFound, "Environment '%s' not found", r.GetName())
	}
	delete(s.environments, r.GetName())
	maps.DeleteFunc(s.secrets, func(_ string, secret *secret) bool { return secret.environment == r.GetName() })
	maps.DeleteFunc(s.tags, func(name objectName, _ published) bool { return name.environment == r.GetName() })
	maps.DeleteFunc(s.volumes, func(_ string, volume *volume) bool { return volume.environment == r.GetName() })
	var stopped []string
	for _, app := range s.apps {
		if app.environment == r.GetName() {
			stopped = append(stopped, app.id)
		}
	}
	s.mu.Unlock()
	for _, id := range stopped {
		if _, err := s.AppStop(ctx, pb.AppStopRequest_builder{AppId: id}.Build()); err != nil {
			return nil, err
		}
	}
	return &emptypb.Empty{}, nil
}

// AppStop ends an app and its sandboxes.
func (s *Server) AppStop(ctx context.Context, r *pb.AppStopRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	if s.apps[r.GetAppId()] == nil {
		s.mu.Unlock()
		return nil, status.Errorf(codes.NotFound, "App '%s' not found", r.GetAppId())
	}
	var boxes []*sandbox
	for _, box := range s.sandboxes {
		if box.app.id == r.GetAppId() && box.live() {
			boxes = append(boxes, box)
		}
	}
	delete(s.apps, r.GetAppId())
	s.mu.Unlock()
	var errs []error
	for _, box := range boxes {
		errs = append(errs, s.terminate(ctx, box))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &emptypb.Empty{}, nil
}

// TokenInfoGet returns the workspace of the token.
func (s *Server) TokenInfoGet(context.Context, *pb.TokenInfoGetRequest) (*pb.TokenInfoGetResponse, error) {
	return pb.TokenInfoGetResponse_builder{WorkspaceName: "local"}.Build(), nil
}

// AppGetOrCreate finds or creates an app.
func (s *Server) AppGetOrCreate(_ context.Context, r *pb.AppGetOrCreateRequest) (*pb.AppGetOrCreateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	environment := s.environment(r.GetEnvironmentName()).name
	found := s.appNamed(environment, r.GetAppName())
	if found == nil {
		if r.GetObjectCreationType() == pb.ObjectCreationType_OBJECT_CREATION_TYPE_UNSPECIFIED {
			return nil, status.Errorf(codes.NotFound, "App '%s' not found in environment '%s'", r.GetAppName(), environment)
		}
		found = &app{id: newID("ap-"), environment: environment, name: r.GetAppName(), created: time.Now()}
		s.apps[found.id] = found
	}
	return pb.AppGetOrCreateResponse_builder{AppId: found.id, HandleMetadata: found.metadata()}.Build(), nil
}

// appNamed finds an app. The caller holds mu.
func (s *Server) appNamed(environment, name string) *app {
	for _, a := range s.apps {
		if a.environment == environment && a.name == name {
			return a
		}
	}
	return nil
}

func (a *app) metadata() *pb.AppHandleMetadata {
	return pb.AppHandleMetadata_builder{
		Description: a.name, AppId: a.id, EnvironmentName: a.environment,
		Lifecycle: pb.AppLifecycle_builder{AppState: pb.AppState_APP_STATE_DEPLOYED, CreatedAt: unix(a.created)}.Build(),
	}.Build()
}

// AppList lists an environment's apps.
func (s *Server) AppList(_ context.Context, r *pb.AppListRequest) (*pb.AppListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := map[string]int32{}
	for _, box := range s.sandboxes {
		if box.live() {
			running[box.app.id]++
		}
	}
	var items []*pb.AppListResponse_AppListItem
	for _, a := range s.apps {
		if a.environment == environmentName(r.GetEnvironmentName()) {
			items = append(items, pb.AppListResponse_AppListItem_builder{
				AppId: a.id, Name: a.name, Description: a.name, State: pb.AppState_APP_STATE_DEPLOYED,
				CreatedAt: unix(a.created), NRunningTasks: running[a.id], Metadata: a.metadata(),
			}.Build())
		}
	}
	slices.SortFunc(items, func(a, b *pb.AppListResponse_AppListItem) int {
		return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt())
	})
	return pb.AppListResponse_builder{Apps: items}.Build(), nil
}
