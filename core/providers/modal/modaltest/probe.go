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

// entryMoment is the longest time that a probe waits for an entry command's first output.
const entryMoment = time.Second

// probe runs a sandbox's readiness probe until it succeeds, and returns the time of the success.
func (s *Server) probe(ctx context.Context, box *sandbox) (time.Time, error) {
	definition := box.definition.GetReadinessProbe()
	if definition == nil {
		return time.Time{}, status.Error(codes.FailedPrecondition, "the Sandbox has no readiness probe")
	}
	command := probeCommand(definition)
	interval := time.Duration(max(definition.GetIntervalMs(), 10)) * time.Millisecond
	if box.hasEntry {
		box.awaitOutput(ctx)
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

// awaitOutput waits until the entry command has written to its output or ended, at most until entryMoment after its
// start. Clients that terminate a ready sandbox expect the first lines of its output.
func (b *sandbox) awaitOutput(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, b.begun.Add(entryMoment))
	defer cancel()
	_, _ = b.entry.stdout.next(ctx, 0, 1) // the caller handles the end of its own context
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
