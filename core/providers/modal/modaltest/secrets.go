package modaltest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-0724f904/sb/core"
)

// addSecret stores a secret. The caller holds mu, or no other goroutine uses the server yet.
func (s *Server) addSecret(environment, name string, env map[string]string) *secret {
	made := &secret{id: newID("st-"), environment: environment, name: name, env: maps.Clone(env), created: time.Now()}
	s.secrets[made.id] = made
	return made
}

// secretNamed finds a secret by its name. The server's initial secrets are in every environment. The caller holds mu.
func (s *Server) secretNamed(environment, name string) *secret {
	if name == "" {
		return nil
	}
	var found *secret
	for _, candidate := range s.secrets {
		if candidate.name != name {
			continue
		}
		if candidate.environment == environment {
			return candidate
		}
		if _, preset := s.opts.Secrets[name]; preset && candidate.environment == defaultEnvironment {
			found = candidate
		}
	}
	return found
}

// SecretGetOrCreate finds or creates a secret.
func (s *Server) SecretGetOrCreate(
	_ context.Context, r *pb.SecretGetOrCreateRequest,
) (*pb.SecretGetOrCreateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	environment := environmentName(r.GetEnvironmentName())
	found := s.secretNamed(environment, r.GetDeploymentName())
	switch r.GetObjectCreationType() {
	case pb.ObjectCreationType_OBJECT_CREATION_TYPE_UNSPECIFIED:
		if found == nil {
			return nil, status.Errorf(
				codes.NotFound, "Secret '%s' not found in environment '%s'", r.GetDeploymentName(), environment,
			)
		}
	case pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS:
		if found != nil {
			return nil, status.Errorf(codes.AlreadyExists, "Secret '%s' already exists", r.GetDeploymentName())
		}
	case pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_OVERWRITE_IF_EXISTS:
		if found != nil {
			found.env = maps.Clone(r.GetEnvDict())
		}
	case pb.ObjectCreationType_OBJECT_CREATION_TYPE_EPHEMERAL,
		pb.ObjectCreationType_OBJECT_CREATION_TYPE_ANONYMOUS_OWNED_BY_APP:
		found = nil
	case pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
	}
	if found == nil {
		found = s.addSecret(environment, r.GetDeploymentName(), r.GetEnvDict())
	}
	var missing []string
	for _, key := range r.GetRequiredKeys() {
		if _, ok := found.env[key]; !ok {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "Secret is missing key(s): %s", strings.Join(missing, ", "))
	}
	return pb.SecretGetOrCreateResponse_builder{SecretId: found.id}.Build(), nil
}

// SecretList lists an environment's named secrets, without their values.
func (s *Server) SecretList(_ context.Context, r *pb.SecretListRequest) (*pb.SecretListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	environment := environmentName(r.GetEnvironmentName())
	var items []*pb.SecretListItem
	for _, found := range s.secrets {
		if found.name != "" && found.environment == environment {
			items = append(items, pb.SecretListItem_builder{
				Label: found.name, SecretId: found.id, CreatedAt: unix(found.created), EnvironmentName: environment,
				Metadata: pb.SecretMetadata_builder{
					Name: found.name, Keys: slices.Sorted(maps.Keys(found.env)), EnvironmentName: environment,
				}.Build(),
			}.Build())
		}
	}
	slices.SortFunc(items, func(a, b *pb.SecretListItem) int { return cmp.Compare(a.GetLabel(), b.GetLabel()) })
	return pb.SecretListResponse_builder{Items: items, EnvironmentName: environment}.Build(), nil
}

// SecretDelete removes a secret.
func (s *Server) SecretDelete(_ context.Context, r *pb.SecretDeleteRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secrets[r.GetSecretId()] == nil {
		return nil, status.Error(codes.NotFound, "Secret not found")
	}
	delete(s.secrets, r.GetSecretId())
	return &emptypb.Empty{}, nil
}

// environmentOf merges the variables of several sources; later ones win. The caller holds mu.
func (s *Server) environmentOf(ids []string, sources []*pb.SecretSource) ([]core.Secret, error) {
	env := map[string]string{}
	add := func(id string) error {
		found := s.secrets[id]
		if found == nil {
			return status.Errorf(codes.NotFound, "Secret '%s' not found", id)
		}
		maps.Copy(env, found.env)
		return nil
	}
	if len(sources) == 0 {
		for _, id := range ids {
			if err := add(id); err != nil {
				return nil, err
			}
		}
	}
	for _, source := range sources {
		if source.HasSecretId() {
			if err := add(source.GetSecretId()); err != nil {
				return nil, err
			}
			continue
		}
		maps.Copy(env, source.GetEnv().GetContents())
	}
	return secretsOf(env), nil
}

// secretsOf converts variables to secrets, because the backend does not write the values of secrets to disk.
func secretsOf(env map[string]string) []core.Secret {
	var secrets []core.Secret
	for _, name := range slices.Sorted(maps.Keys(env)) {
		secrets = append(secrets, core.Secret{Name: name, Value: core.NewSecretValue(env[name])})
	}
	return secrets
}

// merge adds to secrets; those of more win.
func merge(secrets, more []core.Secret) []core.Secret {
	merged := slices.DeleteFunc(slices.Clone(secrets), func(old core.Secret) bool {
		return slices.ContainsFunc(more, func(fresh core.Secret) bool { return fresh.Name == old.Name })
	})
	return append(merged, more...)
}
