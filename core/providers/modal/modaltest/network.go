package modaltest

import (
	"context"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// TaskSetNetworkAccess changes the outbound network access of a sandbox. If the backend cannot do that, the access
// stays unchanged, and the server logs it.
func (r *router) TaskSetNetworkAccess(
	ctx context.Context, request *pb.TaskSetNetworkAccessRequest,
) (*pb.TaskSetNetworkAccessResponse, error) {
	access := request.GetNetworkAccess()
	if access.GetNetworkAccessType() != pb.NetworkAccess_ALLOWLIST {
		return nil, status.Error(codes.InvalidArgument, "only an allow-list can be set on a Sandbox that runs")
	}
	box, err := r.running(ctx, request.GetTaskId())
	if err != nil {
		return nil, err
	}
	s := r.server
	policer, ok := s.opts.Backend.(core.NetworkPolicer)
	if !ok {
		s.log.WarnContext(ctx, "a network policy is recorded, not enforced", "sandbox", box.id)
	} else if _, err := policer.SetNetwork(ctx, box.backend.ID, allowed(access)); err != nil {
		return nil, statusOf(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	box.network = access
	return &pb.TaskSetNetworkAccessResponse{}, nil
}

// allowed converts an allow-list to the backend's form.
func allowed(access *pb.NetworkAccess) core.Network {
	list := append(append([]string(nil), access.GetAllowedCidrs()...), access.GetAllowedDomains()...)
	if len(list) == 0 {
		return core.Network{Mode: core.NetworkNone}
	}
	for _, entry := range list {
		if entry == "*" || entry == "0.0.0.0/0" {
			return core.Network{Mode: core.NetworkAll}
		}
	}
	return core.Network{Mode: core.NetworkAllow, Allow: list}
}
