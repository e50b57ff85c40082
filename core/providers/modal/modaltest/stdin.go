package modaltest

import (
	"context"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SandboxStdinWrite writes input to the entry command of a sandbox of the first generation. Its client numbers the
// writes from 1, and repeats one after a lost answer.
func (s *Server) SandboxStdinWrite(
	ctx context.Context, r *pb.SandboxStdinWriteRequest,
) (*pb.SandboxStdinWriteResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	if err := box.await(ctx); err != nil {
		return nil, err
	}
	box.inputMu.Lock()
	defer box.inputMu.Unlock()
	switch next := box.inputs + 1; {
	case r.GetIndex() < next:
		return &pb.SandboxStdinWriteResponse{}, nil
	case r.GetIndex() > next:
		return nil, status.Errorf(codes.InvalidArgument, "the next write to stdin is number %d, not %d", next, r.GetIndex())
	}
	s.active(box, 0, false)
	written, _ := box.entry.status()
	if err := box.entry.write(written, r.GetInput(), r.GetEof()); err != nil {
		return nil, err
	}
	box.inputs++
	return &pb.SandboxStdinWriteResponse{}, nil
}
