//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// Launch implements core.Provider.
func (p *Provider) Launch(
	ctx context.Context, spec core.Spec, lease core.Lease, progress core.ProgressFunc,
) (_ core.Sandbox, err error) {
	if err := checkOpenFiles("launch"); err != nil {
		return core.Sandbox{}, err
	}
	if err := p.checkVolumes(spec); err != nil {
		return core.Sandbox{}, err
	}
	// record checks the name again. Here a conflict costs no download and no spare.
	if sb, err := p.FindName(ctx, spec.Name); err == nil && sb.State.Live() {
		return core.Sandbox{}, nameConflict("launch", spec.Name)
	}
	// The download comes first, because it may take long or fail.
	root, err := p.rootOf(ctx, spec, progress)
	if err != nil {
		return core.Sandbox{}, err
	}
	defer root.release()
	files := root.files
	if onHost(spec) && len(spec.Pip) > 0 {
		if spec, files, err = p.withVenv(ctx, spec, progress); err != nil {
			return core.Sandbox{}, err
		}
	}
	request := socket.Launch{
		Spec: spec.Redacted(), Lease: lease, Secrets: secretValues(spec.Secrets), RootID: root.id, Root: root.root,
		Files: files,
	}
	shape, fits := p.shapeOf(spec, request)
	if fits {
		defer func() {
			if err == nil {
				p.prepareNext(shape, spec)
			}
		}()
		if sb, err := p.claim(ctx, shape, request, progress); !errors.Is(err, errSpareGone) {
			return sb, err
		}
	}
	id := core.NewID(store.IDPrefix)
	lock, err := p.store.Create(id)
	if err != nil {
		return core.Sandbox{}, stateError("launch", err)
	}
	defer func() { _ = lock.Close() }()
	request.ID = id
	if spec.Snapshot != "" {
		if request.Files, err = p.snapshotFiles(spec.Snapshot); err != nil {
			return core.Sandbox{}, errors.Join(err, p.forget(context.WithoutCancel(ctx), id, spec.Name))
		}
	}
	var image imageFunc
	if spec.Checkpoint != "" {
		request, image, err = p.fromCheckpoint(request)
		if err != nil {
			return core.Sandbox{}, errors.Join(err, p.forget(context.WithoutCancel(ctx), id, spec.Name))
		}
	}
	return p.make(ctx, lock, request, image, progress)
}

// make makes a sandbox whose lock this process holds. After an error it removes the sandbox.
func (p *Provider) make(
	ctx context.Context, lock *store.Lock, request socket.Launch, image imageFunc, progress core.ProgressFunc,
) (core.Sandbox, error) {
	if err := p.launch(ctx, lock, request, image, progress); err != nil {
		// Leftovers finds the parts that cannot be removed now.
		return core.Sandbox{}, errors.Join(err, p.forget(context.WithoutCancel(ctx), request.ID, request.Spec.Name))
	}
	return p.read(request.ID)
}

func (p *Provider) launch(
	ctx context.Context, lock *store.Lock, request socket.Launch, image imageFunc, progress core.ProgressFunc,
) error {
	if err := p.record(request); err != nil {
		return err
	}
	return p.supervise(ctx, lock, request, image, progress)
}

// record writes the lease of a sandbox and reserves its name.
func (p *Provider) record(request socket.Launch) error {
	if err := store.WriteLease(
		p.store.Dir(request.ID),
		store.Lease{ID: request.ID, Spec: request.Spec, Lease: request.Lease, Root: request.RootID},
	); err != nil {
		return stateError("launch", err)
	}
	if request.RootID != "" {
		if err := store.WriteRoot(p.store.Dir(request.ID), request.RootID); err != nil {
			return stateError("launch", err)
		}
	}
	if err := p.reserve("launch", request.Spec.Name, request.ID); err != nil {
		return err
	}
	if err := p.keepSecrets(request, request.Secrets); err != nil {
		return err
	}
	if request.Spec.Persist {
		if err := p.store.Settle(request.ID); err != nil {
			return stateError("launch", err)
		}
	}
	return nil
}

// reserve gives a name to a sandbox. KindConflict: another live sandbox has it.
func (p *Provider) reserve(op, name, id string) error {
	err := p.store.Reserve(name, id, func(holder string) bool {
		sb, err := p.read(holder)
		return holder != id && err == nil && sb.State.Live()
	})
	if errors.Is(err, fs.ErrExist) {
		return nameConflict(op, name)
	}
	return stateError(op, err)
}

func nameConflict(op, name string) error {
	return core.Errorf(core.KindConflict, "local."+op, name, "there is a sandbox %q already", name).
		WithHint("choose another name, or end that one: sb terminate %s", name)
}

// keepSecrets stores the secrets of a persistent sandbox, because its next start needs them.
func (p *Provider) keepSecrets(request socket.Launch, secrets map[string]string) error {
	if !request.Spec.Persist || len(secrets) == 0 {
		return nil
	}
	err := store.WriteJSON(filepath.Join(p.store.Dir(request.ID), store.SecretFile), secrets, true)
	return stateError("launch", err)
}

func (p *Provider) overlayDir(id string) string { return filepath.Join(p.opts.CacheDir, "overlay", id) }

func secretValues(secrets []core.Secret) map[string]string {
	values := make(map[string]string, len(secrets))
	for _, s := range secrets {
		values[s.Name] = s.Value.Reveal()
	}
	return values
}

// imageFunc makes or checks the image from which a sandbox resumes. It returns the data that belongs to the image.
type imageFunc func(context.Context) (*wire.Kept, error)

// supervise starts a supervisor, passes it the lock and waits until the sandbox is ready. It calls image, unless nil,
// while the supervisor prepares itself.
func (p *Provider) supervise(
	ctx context.Context, lock *store.Lock, request socket.Launch, image imageFunc, progress core.ProgressFunc,
) error {
	mounts, dirs, err := p.openMounts(request.Spec)
	if err != nil {
		return err
	}
	defer closeAll(dirs)
	request.Mounts = append(request.Mounts, mounts...)
	if p.checked != nil {
		p.checked()
	}
	child, log, err := p.startSupervisor(lock, &request)
	if err != nil {
		return err
	}
	defer child.release()
	defer func() { _ = log.Close() }()
	stop := context.AfterFunc(ctx, child.kill)
	defer stop()
	err = child.handOver(ctx, request, image)
	if err == nil {
		err = child.awaitReady(ctx, request.Spec.Name, func() string { return firstLine(log.Name(), log.before) }, progress)
	}
	if err != nil {
		child.kill()
		child.wait()
		return err
	}
	p.adopt(child)
	return nil
}

// adopt makes reap collect a supervisor after its end.
func (p *Provider) adopt(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.children = append(p.children, c.pid)
}

// complete fills in the fields of a request that are the same for all launches of this process.
func (p *Provider) complete(request *socket.Launch) {
	request.Version = wire.Version
	at := p.store
	if resolved, err := filepath.EvalSymlinks(p.stateDir()); err == nil {
		at = store.New(resolved) // gVisor refuses a root directory whose path has links
	}
	request.Dir, request.RuntimeDir = at.Dir(request.ID), at.RuntimeDir(request.ID)
	request.OverlayDir = p.overlayDir(request.ID)
	request.SaveInterval, request.FreezeAfter = p.opts.SaveInterval, p.opts.FreezeAfter
	request.LogLimit, request.NPMRegistry = int64(p.opts.LogLimit), p.opts.NPMRegistry
}

// supervisorLog is the log of a sandbox's supervisors.
type supervisorLog struct {
	*os.File
	// before is the size in bytes before this supervisor.
	before int64
}

// startSupervisor starts and records the supervisor of a sandbox, and completes its request. The caller sends the
// request and closes the log.
func (p *Provider) startSupervisor(
	lock *store.Lock, request *socket.Launch,
) (_ *child, log supervisorLog, err error) {
	programs, err := p.usable()
	if err != nil {
		return nil, log, err
	}
	if err := p.checkCacheDir("launch"); err != nil {
		return nil, log, err
	}
	p.complete(request)
	request.Guest = programs.guest
	if request.Group, err = p.group(request.ID, request.Spec); err != nil {
		return nil, log, stateError("launch", err)
	}
	log.File, err = store.OpenRegular(
		filepath.Join(request.Dir, store.LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600,
	)
	if err != nil {
		return nil, log, stateError("launch", err)
	}
	defer func() {
		if err != nil {
			_ = log.Close()
		}
	}()
	if log.before, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, log, stateError("launch", err)
	}
	child, err := p.startRuntime(programs.runtime, request, lock, log.File)
	if err != nil {
		return nil, log, err
	}
	if started, alive := core.ProcessStart(child.pid); alive {
		process := store.Process{PID: child.pid, Start: started, BootID: core.BootID()}
		if err := p.store.WriteProcess(request.ID, process); err != nil {
			child.kill()
			child.wait()
			child.release()
			return nil, log, stateError("launch", err)
		}
	}
	return child, log, nil
}

// startRuntime starts sb-runtime in the sandbox's control group. If that fails, it starts sb-runtime without one: this
// process cannot enter every group that it can make.
func (p *Provider) startRuntime(
	runtime string, request *socket.Launch, lock *store.Lock, log *os.File,
) (*child, error) {
	child, err := spawn(runtime, request.Spec.CPU, request.Group, lock.File, log)
	if err != nil && request.Group != nil {
		request.Group = nil
		if err := p.removeGroup(request.ID); err != nil {
			return nil, stateError("launch", err)
		}
		child, err = spawn(runtime, request.Spec.CPU, nil, lock.File, log)
	}
	if outOfFiles(err) {
		return nil, openFilesError("launch", err)
	}
	if err != nil {
		return nil, core.Errorf(errKind(err), "local.launch", "", "sb-runtime could not be started: %w", err).
			WithHint("%s", startHint(err))
	}
	return child, nil
}

// firstLine returns the first line of a supervisor's log from the offset from, the end of an earlier supervisor's log.
func firstLine(log string, from int64) string {
	text, err := os.ReadFile(log)
	if err != nil || int64(len(text)) <= from {
		return "it was killed, or it crashed"
	}
	line, _, _ := strings.Cut(string(text[from:]), "\n")
	return line
}

// handOver sends the launch request to the supervisor. With an image it also sends the data to resume from.
func (c *child) handOver(ctx context.Context, request socket.Launch, image imageFunc) error {
	defer func() { _ = c.stdin.Close() }()
	if err := c.send(request); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("sb-runtime does not listen: %w", err))
	}
	if image == nil {
		return nil
	}
	kept, err := image(ctx)
	if err != nil {
		return err
	}
	return c.send(kept)
}

// awaitReady reads the supervisor's status until the sandbox is ready. If the supervisor ends without a status, the
// error contains the result of why.
func (c *child) awaitReady(ctx context.Context, name string, why func() string, progress core.ProgressFunc) error {
	err := awaitReady(c.stdout, progress)
	switch {
	case ctx.Err() != nil:
		return core.Wrap("local.launch", name, ctx.Err())
	case errors.Is(err, io.EOF):
		return core.Errorf(core.KindInternal, "local.launch", "", "sb-runtime ended before the sandbox was ready: %s", why()).
			WithHint("sb doctor shows the problems of this machine")
	}
	return err
}

// awaitReady reads a supervisor's status until the sandbox is ready. io.EOF: the supervisor ended without a final
// status.
func awaitReady(from io.Reader, progress core.ProgressFunc) error {
	lines := json.NewDecoder(from)
	for {
		var status socket.LaunchStatus
		err := lines.Decode(&status)
		switch {
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return core.Errorf(core.KindInternal, "local.launch", "", "sb-runtime sent an invalid answer: %w", err)
		case status.Error != nil:
			return status.Error.Err("local.launch")
		case status.Ready:
			return nil
		case progress != nil:
			progress(core.Progress{Step: status.Step})
		}
	}
}

// Start implements core.Stopper.
func (p *Provider) Start(ctx context.Context, id string) (core.Sandbox, error) {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return sb, err
	}
	if err := checkOpenFiles("start"); err != nil {
		return sb, err
	}
	if running(sb.State) {
		return sb, core.Errorf(core.KindConflict, "local.start", sb.Name, "the sandbox is %s", sb.State)
	}
	lease, err := p.store.ReadLease(id)
	if err != nil {
		return sb, core.Errorf(core.KindConflict, "local.start", sb.Name, "its lease cannot be read: %w", err).
			WithHint("%s", keepHint(sb.Name))
	}
	if !sb.Spec.Persist {
		return sb, core.Errorf(
			core.KindConflict, "local.start", sb.Name, "the sandbox is not persistent: its files were not kept",
		).
			WithHint("launch a new one, with --persist if it should survive a stop")
	}
	lock, err := p.lockToStart(ctx, sb, endTimeout)
	if err != nil {
		return sb, err
	}
	defer func() { _ = lock.Close() }()
	request, err := p.restart(sb)
	if err != nil {
		return sb, err
	}
	root, err := p.storedRoot(ctx, "start", sb.Name, lease.Root)
	if err != nil {
		return sb, err
	}
	defer root.release()
	request.RootID, request.Root = root.id, root.root
	if err := p.clear(ctx, id); err != nil {
		return sb, stateError("start", err)
	}
	before, err := p.store.ReadState(id) // an unreadable state counts as empty
	if err := p.announce(sb, before, err == nil); err != nil {
		return sb, err
	}
	// A sandbox whose lifetime was removed has none after a restart, either.
	request.Endless = before.Fixed && before.Expires.IsZero()
	timeout := time.Duration(sb.Spec.Timeout)
	if timeout > 0 && !request.Endless {
		request.Lease.Expires = time.Now().Add(timeout)
	}
	// A start also rewrites a damaged lease.
	if timeout > 0 && !request.Endless || lease.Damage != nil {
		lease.Spec, lease.Lease = sb.Spec, request.Lease
		if err := store.WriteLease(p.store.Dir(id), lease); err != nil {
			return sb, stateError("start", err)
		}
	}
	if err := p.supervise(ctx, lock, request, nil, nil); err != nil {
		// The sandbox stays stopped and keeps its files.
		before.State, before.Reason, before.Message = core.StateStopped, core.ReasonLaunch, err.Error()
		return sb, errors.Join(err, p.clear(context.WithoutCancel(ctx), id), store.WriteState(p.store.Dir(id), before, true))
	}
	return p.read(id)
}

// announce writes the state of a sandbox that starts, and gives it its name again. A killed supervisor leaves the state
// "running", which would now be believed. A launch may have taken the name of a sandbox that was not live. An
// unreadable state stays: it counts as live while this process holds the sandbox's lock.
func (p *Provider) announce(sb core.Sandbox, before store.State, readable bool) error {
	dir := p.store.Dir(sb.ID)
	change := readable && before.State != core.StateStopped
	if change {
		state := before
		state.State = core.StateCreating
		if err := store.WriteState(dir, state, false); err != nil {
			return stateError("start", err)
		}
	}
	holder, _ := p.store.Named(sb.Name)
	err := p.reserve("start", sb.Name, sb.ID)
	if err != nil && change {
		return errors.Join(err, store.WriteState(dir, before, false))
	}
	if err == nil && holder != sb.ID {
		err = stateError("start", p.store.Settle(sb.ID))
	}
	return err
}

// restart returns the request that starts a stopped sandbox from its newest intact saved files.
func (p *Provider) restart(sb core.Sandbox) (socket.Launch, error) {
	dir := p.store.Dir(sb.ID)
	request := socket.Launch{ID: sb.ID, Spec: sb.Spec, Lease: sb.Lease}
	var damage error
	var err error
	if request.Restore, damage, err = p.saved(sb); err != nil {
		return request, err
	}
	if damage != nil {
		request.Note = fmt.Sprintf("%v; it was started from generation %d of its saved files", damage, request.Restore)
	}
	secrets := filepath.Join(dir, store.SecretFile)
	_, err = store.ReadJSON(secrets, &request.Secrets)
	if errors.Is(err, fs.ErrNotExist) && len(sb.Spec.Secrets) > 0 {
		err = &store.DamageError{Path: secrets, Why: "the file is missing"}
	}
	switch {
	case store.IsDamage(err):
		return request, core.Errorf(core.KindConflict, "local.start", sb.Name, "its secrets cannot be read: %w", err).
			WithHint("%s", keepHint(sb.Name))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return request, stateError("start", err)
	}
	return request, nil
}

// saved returns the newest intact generation of a sandbox's saved files, and the damage of newer generations. 0 means
// that none was ever saved. If all are damaged, saved returns an error: a start must not lose files silently.
func (p *Provider) saved(sb core.Sandbox) (generation int, damage, err error) {
	saves := store.SavesIn(p.store.Dir(sb.ID))
	generation, damage, err = saves.Newest()
	if err != nil {
		return 0, nil, stateError("start", err)
	}
	if generation > 0 {
		return generation, damage, nil
	}
	state, stateErr := p.store.ReadState(sb.ID)
	switch {
	case damage == nil && stateErr == nil && state.Saved > 0:
		damage = &store.DamageError{Path: saves.Dir(state.Saved), Why: "the directory is missing"}
	case damage == nil && stateErr != nil && !errors.Is(stateErr, fs.ErrNotExist):
		damage = stateErr
	}
	if damage != nil {
		return 0, nil, core.Errorf(
			core.KindConflict, "local.start", sb.Name, "none of its saved files can be used: %w", damage,
		).
			WithHint("restore them from a backup, or remove the sandbox: sb terminate %s", sb.Name)
	}
	return 0, nil, nil
}

// lockToStart takes the lock of an ended sandbox. Its supervisor reports the end before it exits, so the lock may be
// held for up to limit. KindConflict: another process still holds it then.
func (p *Provider) lockToStart(ctx context.Context, sb core.Sandbox, limit time.Duration) (*store.Lock, error) {
	busy := core.Errorf(
		core.KindConflict, "local.start", sb.Name, "another sb is starting or stopping the sandbox %q", sb.Name,
	).
		WithHint("wait until it is done, then try again: sb inspect %s shows the state", sb.Name)
	ending, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := p.awaitEnd(ending, sb.ID)
	if ctx.Err() != nil {
		return nil, core.Wrap("local.start", sb.Name, ctx.Err())
	}
	if err != nil {
		return nil, busy
	}
	lock, err := p.store.Lock(sb.ID)
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, busy
	case err != nil:
		return nil, stateError("start", err)
	}
	return lock, nil
}

// keepHint names the command that keeps the files of a sandbox that cannot start.
func keepHint(name string) string {
	return fmt.Sprintf("to keep its saved files: sb snapshot %s", name)
}
