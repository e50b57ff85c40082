package modal

import (
	"context"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

// WaitReady implements core.ReadyWaiter. Modal runs the probe on the sandbox's machine.
func (p *Provider) WaitReady(ctx context.Context, id string) error {
	r, err := p.router(ctx, id, false)
	if err != nil {
		return err
	}
	request := pb.SandboxWaitUntilReadyTcrRequest_builder{TaskId: r.task, Timeout: longPoll}.Build()
	for patience := r.patient(); ; {
		callCtx, cancel := context.WithTimeout(ctx, waitCall)
		_, err := r.stub.SandboxWaitUntilReady(r.authorized(callCtx), request)
		cancel()
		switch code := status.Code(err); {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return core.Wrap("modal.ready", id, ctx.Err())
		case code == codes.DeadlineExceeded:
			patience.progress()
			continue
		case code == codes.NotFound || code == codes.FailedPrecondition:
			return p.neverReady(ctx, id, err)
		}
		if err := patience.again(ctx, err); err != nil {
			return p.failed(ctx, "ready", id, err)
		}
	}
}

// neverReady returns the reason why a sandbox cannot become ready: it has ended, or it has no probe.
func (p *Provider) neverReady(ctx context.Context, id string, cause error) error {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return err
	}
	if !sb.State.Live() {
		return p.notRunning(ctx, id)
	}
	_, text := client.KindOf(cause)
	return core.Errorf(core.KindConflict, "modal.ready", sb.Name, "%s", text)
}
