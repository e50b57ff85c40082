package fake

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

const (
	searchPath = "/usr/local/bin:/usr/bin:/bin"
	// programMark begins the content of a file that represents a program of this package.
	programMark = "\x7fFAKE "
	// ownMemory is the reported memory of a sandbox besides its shells' variables.
	ownMemory = core.MiB
)

// box is one sandbox.
type box struct {
	provider *Provider
	tree     *tree
	base     *tree             // the files at the launch
	env      map[string]string // with secrets

	// One goroutine per command, launch and start; the end of the sandbox waits for them.
	running sync.WaitGroup

	mu      sync.Mutex
	sandbox core.Sandbox
	// ctx ends when the sandbox stops; Start makes a new one.
	ctx     context.Context //nolint:containedctx // it is the machine that commands run on, not a call's
	cancel  context.CancelCauseFunc
	procs   []*process
	life    *time.Timer
	idle    *time.Timer
	secrets []core.Secret
	// endless is true once SetTimeout has removed the lifetime.
	endless bool
	// denials has the latest first.
	denials []core.Denial
	broadcast
}

func newBox(p *Provider, spec core.Spec, lease core.Lease) *box {
	now := p.opts.Now()
	b := &box{
		provider: p, tree: newTree(int64(spec.Disk), p.opts.Now), env: map[string]string{}, broadcast: newBroadcast(),
		sandbox: core.Sandbox{
			ID: core.NewID(p.opts.IDPrefix), Name: spec.Name, Provider: p.opts.Name, App: spec.App, State: core.StateCreating,
			Image: spec.Image, GPU: spec.GPU, Labels: maps.Clone(spec.Labels), Spec: spec.Redacted(), Created: now,
			Expires: lease.Expires, Lease: lease,
		},
	}
	maps.Copy(b.env, map[string]string{"PATH": searchPath, "HOME": "/root", "USER": "root", "HOSTNAME": spec.Name})
	maps.Copy(b.env, spec.Env)
	b.secrets = slices.Clone(spec.Secrets)
	for _, secret := range spec.Secrets {
		b.env[secret.Name] = secret.Value.Reveal()
	}
	return b
}

// furnish makes the directories and programs of every new sandbox. They count toward no limit.
func (b *box) furnish() error {
	limit := b.tree.limit
	b.tree.limit = 0
	for _, dir := range []string{
		"/tmp", "/root", "/etc", "/usr/bin", "/usr/local/bin", "/var", path.Join("/", b.sandbox.Spec.Workdir),
	} {
		if err := b.tree.mkdir(dir, true, 0); err != nil {
			return err
		}
	}
	if err := b.tree.symlink("usr/bin", "/bin", 0); err != nil {
		return err
	}
	if err := b.tree.replace("/etc/hostname", []byte(b.sandbox.Name+"\n"), 0, 0); err != nil {
		return err
	}
	for name := range b.provider.programs {
		if err := b.tree.replace("/usr/bin/"+name, []byte(programMark+name+"\n"), 0o755, 0); err != nil {
			return err
		}
	}
	b.tree.used, b.tree.limit = 0, limit
	return b.tree.chmod("/tmp", 0o777)
}

// begin starts the machine and the entry command, whose program must exist.
func (b *box) begin() error {
	b.mu.Lock()
	if !b.sandbox.State.Live() {
		b.mu.Unlock()
		return b.notRunning()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	b.ctx, b.cancel = ctx, cancel
	b.sandbox.Started = b.provider.opts.Now()
	b.sandbox.LastActive = b.sandbox.Started
	b.sandbox.Ended, b.sandbox.ExitCode = time.Time{}, nil
	b.become(core.StateRunning, "", "")
	if timeout := time.Duration(b.sandbox.Spec.Timeout); timeout > 0 && !b.endless {
		b.expireIn(timeout)
	}
	entry := b.sandbox.Spec.Command
	b.mu.Unlock()
	if len(entry) > 0 {
		proc, err := b.start("0", core.ExecSpec{Command: entry, Detach: true})
		if err != nil {
			return err
		}
		if code := proc.missing; code != 0 {
			kind := core.KindNotFound
			if code == codeNotExecutable {
				kind = core.KindUnauthorized
			}
			return core.Errorf(kind, "fake.launch", entry[0], "the sandbox has no program %q that can be run", entry[0])
		}
	}
	b.rest()
	return nil
}

// become sets a new state and notifies watchers. The caller holds b.mu.
func (b *box) become(state core.State, reason core.Reason, message string) {
	b.sandbox.State, b.sandbox.Reason, b.sandbox.Message = state, reason, message
	b.notify()
	b.provider.events.add(core.Event{
		Time: b.provider.opts.Now(), Type: core.EventState, Provider: b.sandbox.Provider, Sandbox: b.sandbox.ID,
		Name:  b.sandbox.Name,
		State: state, Reason: reason, Message: message,
	})
}

// expireIn sets the sandbox's end after a timeout, permanently; 0 means never. The caller holds b.mu.
func (b *box) expireIn(timeout time.Duration) {
	b.endIn(timeout)
	b.sandbox.Lease.Expires = b.sandbox.Expires
}

// endIn sets the sandbox's end after a timeout; 0 means never. The caller holds b.mu.
func (b *box) endIn(timeout time.Duration) {
	if b.life != nil {
		b.life.Stop()
	}
	b.sandbox.Expires = time.Time{}
	if timeout > 0 {
		b.sandbox.Expires = b.provider.opts.Now().Add(timeout)
		b.life = time.AfterFunc(timeout, func() { b.end(core.StateExited, core.ReasonTimeout, "its lifetime expired", nil) })
	}
}

// rest starts the idle timer if no command runs.
func (b *box) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sandbox.LastActive = b.provider.opts.Now()
	timeout := time.Duration(b.sandbox.Spec.IdleTimeout)
	if timeout <= 0 || b.sandbox.State != core.StateRunning || slices.ContainsFunc(b.procs, (*process).alive) {
		return
	}
	if b.idle != nil {
		b.idle.Stop()
	}
	b.idle = time.AfterFunc(timeout, func() {
		b.end(core.StateExited, core.ReasonIdle, "no command ran in it for "+timeout.String(), nil)
	})
}

// end moves a live sandbox to a dead or stopped state and kills its commands. The first end counts.
func (b *box) end(state core.State, reason core.Reason, message string, code *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.sandbox.State.Live() || b.sandbox.State == core.StateStopped {
		return
	}
	for _, timer := range []*time.Timer{b.life, b.idle} {
		if timer != nil {
			timer.Stop()
		}
	}
	if b.sandbox.Spec.Persist && (reason == core.ReasonTimeout || reason == core.ReasonIdle ||
		reason == core.ReasonCommand) {
		state = core.StateStopped
	}
	b.sandbox.Ended, b.sandbox.ExitCode = b.provider.opts.Now(), code
	b.become(state, reason, message)
	if b.cancel != nil {
		ended := killed{signal: sigKill}
		if reason == core.ReasonMemory || reason == core.ReasonDisk {
			ended.reason, ended.message = reason, message
		}
		b.cancel(ended)
	}
}

// wait blocks until no command of the sandbox runs.
func (b *box) wait() { b.running.Wait() }

func (b *box) get() core.Sandbox {
	sb, _ := b.current()
	return sb
}

// current returns the sandbox and a channel that is closed when its state changes.
func (b *box) current() (core.Sandbox, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sb := b.sandbox
	sb.Spec, sb.Labels = sb.Spec.Clone(), maps.Clone(sb.Labels)
	return sb, b.broadcast.wait()
}

// awake blocks while the sandbox is paused.
func (b *box) awake(ctx context.Context) error {
	for {
		b.mu.Lock()
		paused, changed := b.sandbox.State == core.StatePaused, b.broadcast.wait()
		b.mu.Unlock()
		if !paused {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// ready returns the error for an operation in a sandbox that does not run, or nil.
func (b *box) ready() error {
	if b.get().State == core.StateRunning {
		return nil
	}
	return b.notRunning()
}

func (b *box) notRunning() error {
	sb := b.get()
	e := core.Errorf(core.KindConflict, "fake", sb.Name, "the sandbox is %s", sb.State)
	if sb.Message != "" {
		e = core.Errorf(core.KindConflict, "fake", sb.Name, "the sandbox is %s: %s", sb.State, sb.Message)
	}
	switch sb.State {
	case core.StatePaused:
		return e.WithHint("sb resume %s", sb.Name)
	case core.StateStopped:
		return e.WithHint("sb start %s", sb.Name)
	case core.StateQueued, core.StateCreating, core.StateRunning, core.StateExited, core.StateFailed, core.StateLost:
	}
	return e
}

// start starts a command under a journal id; "" takes the next id.
func (b *box) start(id string, spec core.ExecSpec) (*process, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sandbox.State != core.StateRunning {
		state := b.sandbox.State
		return nil, core.Errorf(core.KindConflict, "fake.exec", b.sandbox.Name, "the sandbox is %s", state)
	}
	if id == "" {
		next := 1
		for _, proc := range b.procs {
			if n, err := strconv.Atoi(proc.id); err == nil {
				next = max(next, n+1)
			}
		}
		id = strconv.Itoa(next)
	}
	proc, err := newProcess(b, id, spec)
	if err != nil {
		return nil, err
	}
	if b.idle != nil {
		b.idle.Stop()
	}
	b.sandbox.LastActive = b.provider.opts.Now()
	b.procs = append(b.procs, proc)
	b.running.Go(func() {
		proc.run()
		b.ended(proc)
	})
	return proc, nil
}

// ended handles the end of a command. The end of the entry command ends the sandbox.
func (b *box) ended(proc *process) {
	if proc.id == "0" && proc.missing == 0 {
		code := proc.result().Code
		b.end(core.StateExited, core.ReasonCommand, fmt.Sprintf("its command exited with code %d", code), &code)
		return
	}
	b.rest()
}

// process returns a command by its journal id.
func (b *box) process(id string) (*process, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The latest of that id: Start runs the entry command again.
	for _, proc := range slices.Backward(b.procs) {
		if proc.id == id {
			return proc, nil
		}
	}
	return nil, core.Errorf(core.KindNotFound, "fake", id, "there is no command %q in the sandbox", id)
}

// execs returns the journal.
func (b *box) execs() []core.Exec {
	b.mu.Lock()
	procs := slices.Clone(b.procs)
	b.mu.Unlock()
	execs := make([]core.Exec, 0, len(procs))
	for _, proc := range procs {
		execs = append(execs, proc.entry())
	}
	return execs
}

// exhausted ends the sandbox when its shells' variables are over the memory limit.
func (b *box) exhausted(used core.Bytes) bool {
	sb := b.get()
	if sb.Spec.Memory == 0 || used+ownMemory <= sb.Spec.Memory {
		return false
	}
	b.end(
		core.StateFailed, core.ReasonMemory,
		fmt.Sprintf("memory use of %s exceeded the limit of %s", used+ownMemory, sb.Spec.Memory), nil,
	)
	return true
}

// isExecutable reports whether a mode allows any user to execute a file.
func isExecutable(mode fs.FileMode) bool { return mode.IsRegular() && mode&0o111 != 0 }
