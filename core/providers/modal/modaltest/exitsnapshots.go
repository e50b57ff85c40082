package modaltest

import (
	"context"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// exitSnapshotOption is the experimental option that stores a sandbox's file system at its end.
const exitSnapshotOption = "enable_exit_snapshot"

// endGrace is the extra lifetime of the backend's sandbox if it has an exit snapshot. The server stores its files first
// and then ends it.
const endGrace = time.Minute

// exitSnapshot is the image of a sandbox's file system at its end. The fields are set before done is closed.
type exitSnapshot struct {
	done  chan struct{}
	image string
	err   error
}

// asksExitSnapshot reports whether a sandbox's definition requests an exit snapshot.
func asksExitSnapshot(d *pb.Sandbox) bool {
	older := d.GetExperimentalOptions() //nolint:staticcheck // some SDKs still send it
	return older[exitSnapshotOption] || d.GetExperimentalOptionsV2()[exitSnapshotOption] == "true"
}

// keepExit stores the file system of a sandbox that has ended, before the backend's sandbox is removed.
func (s *Server) keepExit(ctx context.Context, box *sandbox) {
	if box.exit == nil {
		return
	}
	made := box.below.child()
	if box.exit.err = s.ctx.Err(); box.exit.err == nil {
		made.snapshot, box.exit.err = s.keep(ctx, box.backend.ID, made.id)
	}
	if box.exit.err == nil {
		box.exit.image = made.id
		s.mu.Lock()
		s.addImage(made, forever)
		s.mu.Unlock()
	}
	close(box.exit.done)
}

// SandboxGetExitSnapshot waits for the image of a sandbox's file system at its end, up to the client's timeout.
func (s *Server) SandboxGetExitSnapshot(
	ctx context.Context, r *pb.SandboxGetExitSnapshotRequest,
) (*pb.SandboxGetExitSnapshotResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	if box.exit == nil {
		return nil, status.Error(codes.InvalidArgument, "the Sandbox was not created with exit snapshots enabled")
	}
	timer := time.NewTimer(time.Duration(float64(r.GetTimeout()) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-box.exit.done:
	case <-timer.C:
		return pb.SandboxGetExitSnapshotResponse_builder{Pending: &pb.SandboxGetExitSnapshotResponse_Pending{}}.Build(), nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if box.exit.err != nil {
		return pb.SandboxGetExitSnapshotResponse_builder{Error: pb.SandboxGetExitSnapshotResponse_Error_builder{
			ErrorCode: pb.SandboxGetExitSnapshotResponse_ERROR_CODE_FILESYSTEM_INCONSISTENT, Message: box.exit.err.Error(),
		}.Build()}.Build(), nil
	}
	return pb.SandboxGetExitSnapshotResponse_builder{
		Success: pb.SandboxGetExitSnapshotResponse_Success_builder{ImageId: box.exit.image}.Build(),
	}.Build(), nil
}

// SandboxGetExitSnapshotV2 is SandboxGetExitSnapshot.
func (s *Server) SandboxGetExitSnapshotV2(
	ctx context.Context, r *pb.SandboxGetExitSnapshotRequest,
) (*pb.SandboxGetExitSnapshotResponse, error) {
	return s.SandboxGetExitSnapshot(ctx, r)
}
