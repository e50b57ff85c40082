//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// A spare is a sandbox that is started before a launch needs it: without a name, a lease, variables or files of anyone,
// and suspended, so that it uses no CPU. A launch that differs only in these claims it, and so skips the start of a
// kernel. Each spare is claimed once. After a launch the next spare is prepared.

// shapeOf returns the text that describes the spares for a launch. ok is false if no spare fits, because the sandbox
// needs files or directories at its start.
func (p *Provider) shapeOf(spec core.Spec, request socket.Launch) (shape string, ok bool) {
	switch {
	case p.opts.Spares <= 0 || p.opts.SpareAge <= 0,
		!onHost(spec) || request.Root != nil || request.Files != "" || len(spec.Pip)+len(spec.Apt) > 0,
		spec.Snapshot != "" || spec.Checkpoint != "" || spec.Persist || len(spec.Volumes) > 0:
		return "", false
	}
	found, err := p.programs()
	if err != nil {
		return "", false
	}
	info, err := os.Stat(found.runtime)
	if err != nil {
		return "", false
	}
	text, err := json.Marshal(struct {
		Version, Changed, LogLimit int64
		Runtime                    string
		Spec                       core.Spec
	}{wire.Version, info.ModTime().UnixNano(), int64(p.opts.LogLimit), found.runtime, spareSpec(spec)})
	return string(text), err == nil
}

// spareSpec returns the part of a spec that a spare has before its claim: the limits.
func spareSpec(spec core.Spec) core.Spec {
	return core.Spec{
		CPU: spec.CPU, Memory: spec.Memory, Disk: spec.Disk, Processes: spec.Processes, OpenFiles: spec.OpenFiles,
	}
}

// errSpareGone means that a claimed spare ended before it became the sandbox. Another sandbox can be launched.
var errSpareGone = errors.New("the spare is gone")

// claim launches a sandbox from a spare of the shape. It returns errSpareGone if there is none.
func (p *Provider) claim(
	ctx context.Context, shape string, request socket.Launch, progress core.ProgressFunc,
) (core.Sandbox, error) {
	id, err := p.store.TakeSpare(shape)
	if err != nil || id == "" {
		return core.Sandbox{}, errors.Join(errSpareGone, err)
	}
	request.ID = id
	if err = p.record(request); err == nil {
		err = p.become(ctx, request, progress)
	}
	if err != nil {
		return core.Sandbox{}, errors.Join(err, p.discard(context.WithoutCancel(ctx), id, request.Spec.Name))
	}
	return p.read(id)
}

// claimTimeout bounds the time that a spare has to become a sandbox. It needs a few milliseconds.
const claimTimeout = 10 * time.Second

// become makes a claimed spare the sandbox of the request.
func (p *Provider) become(ctx context.Context, request socket.Launch, progress core.ProgressFunc) error {
	p.complete(&request)
	claiming, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	conn, err := socket.Claim(claiming, filepath.Join(request.RuntimeDir, socket.ClaimName), &request)
	if err != nil {
		return errors.Join(errSpareGone, ctx.Err(), err)
	}
	defer context.AfterFunc(claiming, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	err = awaitReady(conn, progress)
	_, broken := errors.AsType[net.Error](err)
	switch {
	case err != nil && ctx.Err() != nil:
		return core.Wrap("local.launch", request.Spec.Name, ctx.Err())
	case broken || errors.Is(err, io.EOF):
		return errors.Join(errSpareGone, err)
	}
	return err
}

// discard removes a claimed spare that did not become a sandbox.
func (p *Provider) discard(ctx context.Context, id, name string) error {
	if err := p.killSupervisor(ctx, id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindUnavailable, "local.launch", id, "a spare cannot be ended: %w", err)
	}
	p.reap()
	lock, err := p.store.Lock(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its supervisor removed it
	}
	if err != nil {
		return stateError("launch", err)
	}
	defer func() { _ = lock.Close() }()
	return p.forget(ctx, id, name)
}

// prepareNext starts the next spare of a shape in the background. An error is no error of a launch: the next launch
// starts its own sandbox.
func (p *Provider) prepareNext(shape string, spec core.Spec) {
	p.preparing.Go(func() { _ = p.prepareSpare(shape, spec) })
}

// prepareSpare starts the next spare of a shape, unless there are enough. It does not wait until the spare is ready.
func (p *Provider) prepareSpare(shape string, spec core.Spec) error {
	spares, err := p.store.Spares()
	if err != nil || len(spares) >= p.opts.Spares {
		return err
	}
	id := core.NewID(store.IDPrefix)
	lock, err := p.store.Create(id)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	offered, err := p.store.OfferSpare(id, shape, p.opts.Spares)
	if err == nil && offered {
		err = p.startSpare(id, lock, spec)
	}
	if err != nil || !offered {
		_, withdrawErr := p.store.WithdrawSpare(id)
		return errors.Join(err, withdrawErr, p.forget(context.Background(), id, ""))
	}
	return nil
}

// startSpare starts the supervisor of a spare.
func (p *Provider) startSpare(id string, lock *store.Lock, spec core.Spec) error {
	request := socket.Launch{
		ID: id, Spec: spareSpec(spec), Spare: &socket.Spare{State: p.stateDir(), Age: p.opts.SpareAge},
	}
	child, log, err := p.startSupervisor(lock, &request)
	if err != nil {
		return err
	}
	defer child.release()
	_ = log.Close()
	if err := child.send(request); err != nil {
		child.kill()
		child.wait()
		return fmt.Errorf("sb-runtime does not listen: %w", err)
	}
	p.adopt(child)
	return nil
}
