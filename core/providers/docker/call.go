package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// directTimeout bounds the time in which a sandbox's first process accepts a call that bypasses the engine. A frozen
// process accepts none. The call then goes through the engine, which reports that the sandbox is frozen.
const directTimeout = time.Second

// call is one call to a sandbox's first process.
type call struct {
	line
	p  *Provider
	id string
	op string
	// left reports that this process closed the call.
	left atomic.Bool
}

// dial starts a call and sends its request. ctx bounds only these two steps; the caller closes the call.
func (p *Provider) dial(ctx context.Context, id, op string, request wire.Request) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, core.Wrap("docker."+op, id, err)
	}
	e, err := p.connect(ctx)
	if err != nil {
		return nil, p.absent(err, id)
	}
	k, err := p.knownOf(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := wire.CheckVersion(wire.Version, k.protocol); err != nil {
		return nil, core.Wrap("docker."+op, id, err)
	}
	payload, err := request.Sign(k.key)
	if err != nil {
		return nil, core.Wrap("docker."+op, id, err)
	}
	bounded, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	c := &call{p: p, id: id, op: op}
	if err = errors.ErrUnsupported; !p.opts.EngineOnly {
		c.line, err = e.direct(bounded, k)
	}
	if err != nil {
		c.line, err = e.execLine(bounded, k)
	}
	if err != nil {
		return nil, p.callError(bounded, id, op, err)
	}
	if _, err := c.Write(wire.AppendFrame(nil, wire.FrameRequest, payload)); err != nil {
		c.close()
		return nil, p.callError(bounded, id, op, err)
	}
	return c, nil
}

func (c *call) close() {
	c.left.Store(true)
	_ = c.Close()
}

// callError returns the error for a failed call to the sandbox.
func (p *Provider) callError(ctx context.Context, id, op string, err error) error {
	failed := engine.Classify(ctx, op, id, err)
	if ctx.Err() != nil || errors.Is(failed, core.KindUnavailable) {
		return failed
	}
	// The engine gives the same error for several states of the sandbox, so the state is read again.
	sb, getErr := p.Get(context.WithoutCancel(ctx), id)
	if getErr != nil {
		return getErr
	}
	if err := notRunning(sb, op); err != nil {
		return err
	}
	return failed
}

// notRunning returns the error for a command in a sandbox that does not run, or nil.
func notRunning(sb core.Sandbox, op string) error {
	switch sb.State {
	case core.StateRunning:
		return nil
	case core.StatePaused:
		return core.Errorf(core.KindConflict, "docker."+op, sb.Name, "the sandbox is paused").
			WithHint("sb resume %s", sb.Name)
	case core.StateStopped:
		why := "the sandbox is stopped"
		if sb.Message != "" {
			why += ": " + sb.Message
		}
		return core.Errorf(core.KindConflict, "docker."+op, sb.Name, "%s", why).WithHint("sb start %s", sb.Name)
	case core.StateQueued, core.StateCreating, core.StateExited, core.StateFailed, core.StateLost:
	}
	return core.Errorf(core.KindConflict, "docker."+op, sb.Name, "the sandbox is not running: it is %s", sb.State)
}

// ask makes a call and returns its single reply.
func (p *Provider) ask(ctx context.Context, id, op string, request wire.Request) (wire.Reply, error) {
	return p.askEach(ctx, id, op, request, nil)
}

// askEach makes a call whose reply follows other frames. take receives those frames.
func (p *Provider) askEach(
	ctx context.Context, id, op string, request wire.Request, take func(kind byte, payload []byte) error,
) (wire.Reply, error) {
	c, err := p.dial(ctx, id, op, request)
	if err != nil {
		return wire.Reply{}, err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	reply, err := c.reply(take)
	if err != nil && ctx.Err() != nil {
		return reply, core.Wrap("docker."+op, id, ctx.Err())
	}
	return reply, err
}

// reply reads frames until the reply. take receives the other frames; nil drops them.
func (c *call) reply(take func(kind byte, payload []byte) error) (wire.Reply, error) {
	buffer := make([]byte, frameBuffer)
	for {
		kind, payload, err := wire.ReadFrame(c, buffer)
		if err != nil {
			return wire.Reply{}, c.failure(err)
		}
		if kind == wire.FrameReply {
			var reply wire.Reply
			if err := json.Unmarshal(payload, &reply); err != nil {
				return reply, core.Errorf(core.KindInternal, "docker."+c.op, c.id, "the sandbox's answer is damaged: %w", err)
			}
			return reply, reply.Error.Err("docker." + c.op)
		}
		if take != nil {
			if err := take(kind, payload); err != nil {
				return wire.Reply{}, err
			}
		}
	}
}

// failure returns the reason for which a call ended without a reply.
func (c *call) failure(err error) error {
	if c.left.Load() {
		return core.Errorf(core.KindCanceled, "docker."+c.op, c.id, "the caller has left")
	}
	if errors.Is(err, wire.ErrFrame) {
		// The call has not ended, so its diagnostics are not complete.
		return core.Errorf(core.KindInternal, "docker."+c.op, c.id, "the sandbox's answer is damaged: %w", err)
	}
	ctx, cancel := engine.Within(context.Background(), engine.AskTimeout+endGrace)
	defer cancel()
	reason := bytes.TrimSpace(c.diagnostics())
	sb, getErr := c.p.Get(ctx, c.id)
	if getErr == nil && sb.State == core.StateRunning && len(reason) == 0 {
		sb, getErr = c.awaitEnd(ctx, sb)
	}
	if getErr != nil {
		return getErr
	}
	if err := notRunning(sb, c.op); err != nil {
		return err
	}
	if len(reason) > 0 {
		return core.Errorf(core.KindInternal, "docker."+c.op, c.id, "the call to the sandbox failed: %s", reason)
	}
	return core.Errorf(core.KindUnavailable, "docker."+c.op, c.id, "the connection to the engine was lost: %w", err).
		WithHint("the command may still run; list the commands with: sb ps %s", sb.Name)
}

// awaitEnd waits until the engine reports a container's end, for endGrace at most, and then returns the sandbox. Its
// processes end earlier: Kata's runtime still has to end the machine.
func (c *call) awaitEnd(ctx context.Context, sb core.Sandbox) (core.Sandbox, error) {
	e, err := c.p.connect(ctx)
	if err != nil {
		return sb, err
	}
	ending, cancel := engine.Within(ctx, endGrace)
	defer cancel()
	if err := e.awaitExit(ending, containerOf(c.id)); err != nil && ending.Err() != nil {
		return sb, nil
	}
	return c.p.Get(ctx, c.id)
}

// endGrace bounds the time in which an engine notices a container's end. Only a connection that breaks while both live
// waits that long.
const endGrace = 10 * time.Second

// frameBuffer holds most frames.
const frameBuffer = 256<<10 + 16
