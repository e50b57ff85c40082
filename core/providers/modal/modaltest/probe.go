package modaltest

import (
	"context"
	"fmt"
	"io"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// entryMoment is the shortest time from a sandbox's start until it can be ready.
const entryMoment = 200 * time.Millisecond

// probe runs a sandbox's readiness probe until it succeeds, and returns the time of the success.
func (s *Server) probe(ctx context.Context, box *sandbox) (time.Time, error) {
	definition := box.definition.GetReadinessProbe()
	if definition == nil {
		return time.Time{}, status.Error(codes.FailedPrecondition, "the Sandbox has no readiness probe")
	}
	command := probeCommand(definition)
	interval := time.Duration(max(definition.GetIntervalMs(), 10)) * time.Millisecond
	// An entry command has a moment to start before its sandbox counts as ready.
	if err := pause(ctx, entryMoment-time.Since(box.begun)); err != nil {
		return time.Time{}, status.FromContextError(err).Err()
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		code, err := s.runIn(ctx, box.backend.ID, core.ExecSpec{Command: command, Workdir: box.workdir}, io.Discard)
		if err == nil && code == 0 {
			s.mu.Lock()
			defer s.mu.Unlock()
			if box.readyAt.IsZero() {
				box.readyAt = time.Now()
			}
			return box.readyAt, nil
		}
		select {
		case <-tick.C:
		case <-box.ended:
			return time.Time{}, status.Error(codes.NotFound, "the Sandbox has finished")
		case <-ctx.Done():
			return time.Time{}, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// probeCommand returns a command that succeeds when the sandbox is ready.
func probeCommand(definition *pb.Probe) []string {
	if argv := definition.GetExecCommand().GetArgv(); len(argv) > 0 {
		return argv
	}
	// State 0A in these tables is a listening socket.
	return []string{
		"sh", "-c",
		fmt.Sprintf("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qi ':%04X [0-9A-F:]* 0A'", definition.GetTcpPort()),
	}
}
