//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

const (
	// poll is the interval of checks for a supervisor's end.
	poll = 10 * time.Millisecond
	// endTimeout is how long a supervisor has to end its sandbox before it is killed.
	endTimeout = 15 * time.Second
	// deafTimeout replaces endTimeout for a supervisor that does not answer.
	deafTimeout = 3 * time.Second
	// controlTimeout bounds a request that needs little time.
	controlTimeout = 30 * time.Second
)

// Provider is the client of this user's supervisors.
type Provider struct {
	guest.Files
	opts  Options
	store *store.Store

	mu sync.Mutex
	// children are the supervisors that this process started and has to reap.
	children []int
	// preparing has the goroutines that start spares. Close waits for them.
	preparing sync.WaitGroup
	// checked is called after the directories of a launch were checked; nil except in tests.
	checked func()
}

// New returns the provider. It does no I/O.
func New(opts Options) (core.Provider, error) {
	p := &Provider{opts: opts}
	p.store = store.New(p.stateDir())
	p.Files = guest.NewFiles(Name, files{p})
	return p, nil
}

// stateDir returns the directory of this provider's state.
func (p *Provider) stateDir() string { return filepath.Join(p.opts.StateDir, Name) }

var (
	_ core.Finder       = (*Provider)(nil)
	_ core.Waiter       = (*Provider)(nil)
	_ core.Stopper      = (*Provider)(nil)
	_ core.Pauser       = (*Provider)(nil)
	_ core.Renewer      = (*Provider)(nil)
	_ core.SecretLister = (*Provider)(nil)
	_ core.Journaler    = (*Provider)(nil)
	_ core.Attacher     = (*Provider)(nil)
	_ core.LogReader    = (*Provider)(nil)
	_ core.FileSystem   = (*Provider)(nil)
	_ core.StatsReader  = (*Provider)(nil)
	_ core.Watcher      = (*Provider)(nil)
	_ core.Sweeper      = (*Provider)(nil)
	_ core.Doctor       = (*Provider)(nil)
	_ core.Forker       = (*Provider)(nil)
	_ core.Snapshotter  = (*Provider)(nil)
	_ core.Differ       = (*Provider)(nil)

	_ core.SnapshotStore  = (*Provider)(nil)
	_ core.SnapshotFinder = (*Provider)(nil)

	_ core.DenialReader   = (*Provider)(nil)
	_ core.NetworkPolicer = (*Provider)(nil)
	_ core.Checkpointer   = (*Provider)(nil)
	_ core.PortForwarder  = (*Provider)(nil)
)

// Name implements core.Provider.
func (p *Provider) Name() string { return Name }

// Capabilities implements core.Provider.
func (p *Provider) Capabilities() core.Capabilities {
	caps := core.Capabilities{
		Has: append(core.Implemented(p), core.CapTTY, core.CapPorts, core.CapPersist, core.CapUser,
			core.CapNetNone, core.CapNetAll, core.CapNetAllow, core.CapCPU, core.CapMemory, core.CapDisk,
			core.CapProcesses, core.CapOpenFiles, core.CapTimeout, core.CapNoTimeout, core.CapIdle, core.CapVolumes,
			core.CapCopyOnWrite),
		Images:    []string{HostImage},
		Isolation: "gVisor: a kernel of its own, in user space",
	}
	if p.opts.HostOnly {
		caps.Has = slices.DeleteFunc(caps.Has, func(c core.Capability) bool {
			return slices.Contains([]core.Capability{
				core.CapImageStore, core.CapImageBuild, core.CapImageEdit, core.CapImagePort, core.CapImagePrune,
				core.CapVolumeStore,
			}, c)
		})
	} else {
		caps.Has = append(caps.Has, core.CapImages, core.CapPull, core.CapBuild)
	}
	return caps
}

// Close implements core.Provider.
func (p *Provider) Close() error {
	p.preparing.Wait()
	p.reap()
	return nil
}

// reap collects supervisors of this process that have ended.
func (p *Provider) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.children = slices.DeleteFunc(p.children, func(pid int) bool {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		return got == pid || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// Get implements core.Provider.
func (p *Provider) Get(_ context.Context, id string) (core.Sandbox, error) {
	p.reap()
	if !store.ValidID(id) {
		return core.Sandbox{}, notFound(id)
	}
	return p.read(id)
}

func notFound(id string) error {
	return core.Errorf(core.KindNotFound, "local", id, "there is no sandbox %q", id).WithHint("sb ls --all lists them")
}

// read makes a sandbox from its files and the state of its lock.
func (p *Provider) read(id string) (core.Sandbox, error) {
	// The lock is checked first. A supervisor writes its final state before it releases the lock.
	locked := p.store.Locked(id)
	lease, err := p.store.ReadLease(id)
	if outOfFiles(err) {
		return core.Sandbox{}, openFilesError("read", err)
	}
	if err != nil {
		return p.withoutLease(id, locked, err)
	}
	sb := core.Sandbox{
		ID: id, Name: lease.Spec.Name, Provider: Name, App: lease.Spec.App, Image: lease.Spec.Image,
		Labels: lease.Spec.Labels,
		Spec:   lease.Spec, Created: lease.Lease.Created, Lease: lease.Lease, State: core.StateCreating,
	}
	if sb.ImageID = lease.Root; sb.ImageID != "" {
		sb.RootFormat = "erofs"
	}
	if lease.Damage != nil {
		sb.Message = lease.Damage.Error() + "; its copy is used"
	}
	p.addState(&sb, locked)
	return sb, nil
}

// addState adds the last state that a sandbox's supervisor wrote.
func (p *Provider) addState(sb *core.Sandbox, locked bool) {
	state, err := p.store.ReadState(sb.ID)
	lost := errors.Is(err, fs.ErrNotExist) && locked && p.serves(sb.ID)
	if err != nil && (lost || store.IsDamage(err) || store.SavesIn(p.store.Dir(sb.ID)).Any()) {
		p.withoutState(sb, locked, err)
		return
	}
	if err == nil {
		sb.State, sb.Reason, sb.Frozen = state.State, state.Reason, state.Frozen
		sb.Message = joined(sb.Message, state.Message, state.Note)
		sb.Started, sb.Ended, sb.Expires, sb.LastActive = state.Started, state.Ended, state.Expires, state.LastActive
		sb.ExitCode, sb.Ports = state.ExitCode, state.Ports
		sb.Lease.Renewed = sb.Lease.Renewed && !state.Fixed
	}
	if state.Damage != nil {
		sb.Message = joined(sb.Message, state.Damage.Error()+"; its copy is used")
	}
	if running(sb.State) && !locked {
		p.markLost(sb, state)
	}
}

// serves reports whether the socket of a supervisor exists. The supervisor makes it after state.json.
func (p *Provider) serves(id string) bool {
	_, err := os.Lstat(p.store.Socket(id))
	return err == nil
}

// withoutState fills in a sandbox whose state.json and its copy cannot be read.
func (p *Provider) withoutState(sb *core.Sandbox, locked bool, why error) {
	sb.Message = joined(sb.Message, "its state cannot be read: "+why.Error())
	switch {
	case locked:
		sb.State = core.StateRunning
	case store.SavesIn(p.store.Dir(sb.ID)).Any():
		sb.State, sb.Reason = core.StateStopped, core.ReasonCrash
	default:
		sb.State, sb.Reason = core.StateLost, core.ReasonCrash
	}
}

// withoutLease returns a sandbox whose lease.json and its copy cannot be read. With saved files it counts as stopped,
// so that nothing removes it automatically.
func (p *Provider) withoutLease(id string, locked bool, why error) (core.Sandbox, error) {
	dir := p.store.Dir(id)
	saved := store.SavesIn(dir).Any()
	if errors.Is(why, fs.ErrNotExist) && !saved {
		return core.Sandbox{}, notFound(id)
	}
	sb := core.Sandbox{ID: id, Name: p.store.NameOf(id), Provider: Name, State: core.StateLost, Reason: core.ReasonCrash}
	if sb.Name == "" {
		sb.Name = id
	}
	if locked {
		p.addState(&sb, locked)
	} else if saved {
		sb.State = core.StateStopped
	}
	sb.Message = joined("its lease cannot be read: "+why.Error(), sb.Message)
	if saved {
		sb.Message = joined(sb.Message, fmt.Sprintf("its saved files take %s", treeSize(filepath.Join(dir, store.SavedDir))))
	}
	return sb, nil
}

// joined joins the messages that are not empty.
func joined(messages ...string) string {
	return strings.Join(slices.DeleteFunc(messages, func(m string) bool { return m == "" }), "; ")
}

// markLost fills in a sandbox whose supervisor ended without a final state.
func (p *Provider) markLost(sb *core.Sandbox, state store.State) {
	sb.Frozen, sb.Ports = false, nil
	before := sb.Message
	sb.State, sb.Reason, sb.Message = core.StateLost, core.ReasonSupervisor, "its supervisor was killed"
	bootID := state.BootID
	if bootID == "" {
		bootID = sb.Lease.Owner.BootID
		sb.Reason = core.ReasonLaunch
		sb.Message = "its launch or removal was interrupted: there is no " + p.store.StatePath(sb.ID)
	}
	if bootID != core.BootID() {
		sb.Reason, sb.Message = core.ReasonReboot, "this machine was restarted"
	}
	if sb.Spec.Persist && store.SavesIn(p.store.Dir(sb.ID)).Any() {
		sb.State = core.StateStopped
		sb.Message += "; its files are as they were last saved"
	}
	sb.Message = joined(sb.Message, before)
}

func running(s core.State) bool {
	return s == core.StateCreating || s == core.StateRunning || s == core.StatePaused
}

// List implements core.Provider.
func (p *Provider) List(ctx context.Context) ([]core.Sandbox, error) {
	p.reap()
	ids, err := p.store.IDs()
	if err != nil {
		return nil, stateError("list", err)
	}
	sandboxes := make([]core.Sandbox, 0, len(ids))
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sb, err := p.read(id)
		if outOfFiles(err) {
			return nil, err
		}
		if err == nil {
			sandboxes = append(sandboxes, sb)
		}
	}
	return sandboxes, nil
}

// FindName implements core.Finder.
func (p *Provider) FindName(_ context.Context, name string) (core.Sandbox, error) {
	if core.ValidateName("name", name) != nil {
		return core.Sandbox{}, notFound(name)
	}
	id, err := p.store.Named(name)
	if err != nil {
		return core.Sandbox{}, notFound(name)
	}
	return p.read(id)
}

// stateError classifies errors of the state directory.
func stateError(op string, err error) error {
	switch {
	case outOfFiles(err):
		return openFilesError(op, err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return core.Errorf(core.KindExhausted, "local."+op, "", "the disk is full: %w", err).
			WithHint("free some space, then try again; sb prune removes dead sandboxes")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return core.Errorf(core.KindUnavailable, "local."+op, "", "the state directory cannot be written: %w", err).
			WithHint("make it writable, or set XDG_STATE_HOME to a directory that is")
	}
	return core.Wrap("local."+op, "", err)
}

// control sends one request to a sandbox's supervisor.
func (p *Provider) control(
	ctx context.Context, id string, request *wire.Request, files ...*os.File,
) (*wire.Reply, error) {
	client, err := socket.Dial(p.store.Socket(id), files...)
	if err != nil {
		return nil, core.Wrap("local", id, err)
	}
	defer func() { _ = client.Close() }()
	reply, err := client.Control(ctx, request)
	if err != nil {
		return nil, p.whyUnreachable(ctx, id, err)
	}
	return reply, reply.Error.Err("local." + string(request.Verb))
}

// whyUnreachable turns a failed connection into an error about the sandbox.
func (p *Provider) whyUnreachable(ctx context.Context, id string, cause error) error {
	if ctx.Err() != nil {
		return core.Wrap("local", id, ctx.Err())
	}
	if e, ok := errors.AsType[*core.Error](cause); ok {
		return e
	}
	sb, err := p.read(id)
	if err != nil {
		return err
	}
	if running(sb.State) && sb.State != core.StateCreating {
		return core.Errorf(core.KindUnavailable, "local", sb.Name, "its supervisor does not answer: %w", cause).
			WithHint("sb terminate %s ends it", sb.Name)
	}
	return notRunning(sb)
}

func notRunning(sb core.Sandbox) error {
	e := core.Errorf(core.KindConflict, "local", sb.Name, "the sandbox is %s", sb.State)
	if sb.Message != "" {
		e = core.Errorf(core.KindConflict, "local", sb.Name, "the sandbox is %s: %s", sb.State, sb.Message)
	}
	if sb.State == core.StatePaused {
		return e.WithHint("sb resume %s", sb.Name)
	}
	if sb.State == core.StateStopped {
		return e.WithHint("sb start %s", sb.Name)
	}
	return e.WithHint("sb logs %s shows its output, sb terminate %s removes it", sb.Name, sb.Name)
}
