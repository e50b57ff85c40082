package modal

import (
	"context"
	"iter"

	"github.com/google/uuid"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
)

// Attach implements core.Attacher for the commands of any client, by Modal's id. Modal's API does not mark the end of
// the output so far. Without streams.Replay, Attach skips the output that soFar returns.
func (p *Provider) Attach(ctx context.Context, id, exec string, streams core.Streams) (core.Process, error) {
	if !execID(exec) {
		return nil, noExec(exec)
	}
	running, err := p.execRuns(ctx, id, exec)
	if err != nil {
		return nil, err
	}
	r, err := p.router(ctx, id, true)
	if err != nil {
		return nil, err
	}
	proc := &process{provider: p, router: r, id: exec, done: make(chan struct{}), noInput: streams.Stdin == nil ||
		!running}
	if !proc.noInput {
		reply, err := call(ctx, r, func(ctx context.Context) (*pb.TaskExecStdinStatusResponse, error) {
			return r.stub.TaskExecStdinStatus(ctx, pb.TaskExecStdinStatusRequest_builder{TaskId: r.task, ExecId: exec}.Build())
		})
		if err != nil {
			return nil, p.failed(ctx, "attach", id, err)
		}
		proc.fed, proc.noInput = reply.GetNumBytesWritten(), reply.GetClosed()
	}
	if !streams.Replay && (streams.Stdout != nil || streams.Stderr != nil) {
		if proc.from, err = p.written(ctx, id, exec, running); err != nil {
			return nil, err
		}
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	proc.cancel = cancel
	streams, release := streams.Own()
	go func() {
		defer close(proc.done)
		defer release()
		proc.follow(life, streams)
	}()
	return proc, nil
}

// execID reports whether text has the form of a command id of sb and Modal's SDKs.
func execID(text string) bool {
	parsed, err := uuid.Parse(text)
	return err == nil && parsed.String() == text
}

// ExecEnd implements core.ExecTeller.
func (p *Provider) ExecEnd(ctx context.Context, id, exec string) (*core.Exit, error) {
	if !execID(exec) {
		return nil, noExec(exec)
	}
	reply, err := p.poll(ctx, id, exec)
	if err != nil || !reply.HasExitStatus() {
		return nil, err
	}
	ended := process{}
	exit := ended.exitOf(reply)
	return &exit, nil
}

// written returns the size of a command's output so far, in bytes for each stream.
func (p *Provider) written(ctx context.Context, id, exec string, running bool) (map[core.Stream]uint64, error) {
	var records iter.Seq[logItem]
	if running {
		records = p.soFar(ctx, id, core.LogOptions{Exec: exec}, glancePause)
	} else {
		tail, err := p.tailer(ctx, id, exec)
		if err != nil {
			return nil, err
		}
		all, stop := output(ctx, tail, forever)
		defer stop()
		records = all
	}
	written := map[core.Stream]uint64{}
	for item := range records {
		if item.err != nil {
			return nil, item.err
		}
		written[item.record.Stream] += uint64(len(item.record.Data))
	}
	return written, nil
}

// noExec returns the error for an id that matches no command of the sandbox.
func noExec(exec string) error {
	return core.Errorf(core.KindNotFound, "modal.exec", exec, "the sandbox has no command %q", exec).
		WithHint("sb exec --detach prints the id of the command that it starts")
}
