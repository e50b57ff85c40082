package modaltest

import (
	"cmp"
	"context"
	"slices"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// EnvironmentGetOrCreate finds an environment. Every name is one: Modal's test suites expect theirs to be there.
func (s *Server) EnvironmentGetOrCreate(_ context.Context, r *pb.EnvironmentGetOrCreateRequest) (*pb.EnvironmentGetOrCreateResponse, error) {
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

// environment makes an environment where there is none. The caller holds mu.
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

// TokenInfoGet says whose the token is.
func (s *Server) TokenInfoGet(context.Context, *pb.TokenInfoGetRequest) (*pb.TokenInfoGetResponse, error) {
	return pb.TokenInfoGetResponse_builder{WorkspaceName: "local"}.Build(), nil
}

// AppGetOrCreate finds an app or makes it.
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
	slices.SortFunc(items, func(a, b *pb.AppListResponse_AppListItem) int { return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()) })
	return pb.AppListResponse_builder{Apps: items}.Build(), nil
}
