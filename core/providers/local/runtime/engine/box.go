//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	gvlog "gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/specutils"
)

// Box is a sandbox that runs. Its methods may be called from several goroutines,
// except that none but Thaw, Stop and Done may be called while it is frozen.
type Box struct {
	config    Config
	runtime   *config.Config
	container *container.Container
	guest     *os.File
	processes []*os.Process // the sentry, then the gofer
	done      chan struct{}
	wait      sync.WaitGroup

	// calling is held for reading during each call of the container, and for writing while it is destroyed.
	calling   sync.RWMutex
	destroyed bool

	mu      sync.Mutex
	stopped bool
	overlay *os.File // the writable layer
	view    *os.File // the view of the machine, whose mount is gone
	image   *rootImage
}

// Start builds the host image's view and starts a sandbox in it. One process can
// do that once, in a mount namespace of its own: gVisor takes the standard streams
// of the whole process for those of the sandbox's first process.
func Start(ctx context.Context, c Config) (_ *Box, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.configureGVisor()
	box := &Box{config: c, done: make(chan struct{})}
	defer func() {
		if err != nil {
			box.abandon()
		}
	}()
	if err := box.create(); err != nil {
		return nil, err
	}
	begin := box.begin
	if c.Image != nil {
		begin = box.goOn
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	if err := box.limit(); err != nil {
		return nil, err
	}
	if err := box.hold(); err != nil {
		return nil, err
	}
	box.wait.Go(func() {
		defer close(box.done)
		awaitExit(box.SandboxPID())
	})
	box.wait.Go(box.endWithGofer)
	return box, nil
}

// endWithGofer kills the sentry when the gofer has ended: without it the sentry runs, and no file can be opened.
func (b *Box) endWithGofer() {
	sentry, gofer := b.processes[0], b.processes[1]
	awaitExit(gofer.Pid)
	_ = signal(unix.SIGKILL, sentry) // it is a child of this process
}

// hold opens what is needed later and could not be opened without privileges, and takes the view's mount away: the
// gofer has its own.
func (b *Box) hold() error {
	overlay, err := openOverlay(b.SandboxPID(), b.config.OverlayDir)
	if err != nil {
		return err
	}
	b.overlay = overlay
	root := filepath.Join(b.config.Dir, "root")
	view, err := unix.OpenTree(unix.AT_FDCWD, root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("opening the view: %w", err)
	}
	b.view = os.NewFile(uintptr(view), "view")
	if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the view: %w", err)
	}
	return nil
}

// below is what is below the writable layer: the image, or the view of the machine. It holds during a call, because
// Stop closes both after all calls.
func (b *Box) below() lower {
	if b.image != nil {
		return b.image
	}
	return hostLower(filepath.Join("/proc/self/fd", strconv.Itoa(int(b.view.Fd()))))
}

// configureGVisor sets what gVisor keeps for the whole process.
func (c Config) configureGVisor() {
	if c.Log == nil {
		gvlog.SetTarget(&gvlog.GoogleEmitter{Writer: &gvlog.Writer{Next: discard{}}})
	} else {
		gvlog.SetTarget(&gvlog.GoogleEmitter{Writer: &gvlog.Writer{Next: c.Log}})
	}
	if c.Executable != "" {
		specutils.ExePath = c.Executable
	}
}

// create builds the sandbox's root and starts gVisor's processes, in which nothing runs yet.
func (b *Box) create() error {
	c := b.config
	root := filepath.Join(c.Dir, "root")
	for _, dir := range []string{root, c.OverlayDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var err error
	build := buildHostRoot
	if c.RootImage != "" {
		build = buildImageRoot
		if b.image, err = openRootImage(c.RootImage); err != nil {
			return err
		}
		if err := b.image.check(); err != nil {
			return err
		}
	}
	if err := build(root, c); err != nil {
		return err
	}
	if b.guest, err = os.Open(c.Guest); err != nil {
		return err
	}
	rootless, err := inUserNamespace()
	if err != nil {
		return err
	}
	state, err := stateDir(c.Dir)
	if err != nil {
		return err
	}
	if b.runtime, err = c.runtimeConfig(state, rootless); err != nil {
		return err
	}
	spec := c.spec(root)
	bundle, err := writeBundle(c.Dir, spec, c.Limits.Memory)
	if err != nil {
		return err
	}
	err = withoutStreams(func() (err error) {
		b.container, err = container.New(b.runtime, container.Args{
			ID: c.ID, Spec: spec, BundleDir: bundle, Attached: true, FSRestoreImagePath: c.Restore,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating the sandbox: %w", err)
	}
	return b.findProcesses()
}

// findProcesses takes hold of the sentry and the gofer.
func (b *Box) findProcesses() error {
	for _, pid := range []int{b.container.SandboxPid(), b.container.GoferPid.Load()} {
		process, err := os.FindProcess(pid)
		if err != nil || pid <= 1 {
			return fmt.Errorf("gVisor's process %d is not there: %w", pid, err)
		}
		b.processes = append(b.processes, process)
	}
	return nil
}

// begin starts the first process of a fresh sandbox.
func (b *Box) begin(context.Context) error {
	if err := b.connect(); err != nil {
		return err
	}
	// The interfaces are there already: "host" keeps Start from looking for some
	// in the network namespace, which is empty.
	started := *b.runtime
	started.Network = config.NetworkHost
	if err := b.container.Start(&started); err != nil {
		return fmt.Errorf("starting the sandbox: %w", err)
	}
	return nil
}

// stateDir makes the directory for gVisor's files. One whose path is too long for the
// socket in it is shown under a short one, in this process's mount namespace only.
func stateDir(dir string) (string, error) {
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", err
	}
	const fits = 60 // of the 108 bytes of a socket's address: unix(7)
	if len(state) <= fits {
		return state, nil
	}
	for _, short := range []string{"/mnt", "/media", "/srv"} {
		err := unix.Mount(state, short, "", unix.MS_BIND, "")
		if err == nil {
			return short, nil
		}
		if !errors.Is(err, unix.ENOENT) {
			return "", fmt.Errorf("mounting %s: %w", short, err)
		}
	}
	return state, nil
}

// awaitExit blocks until a child has ended and leaves it to be reaped by gVisor, whose own
// Wait must not run beside its other calls.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// withoutStreams lets gVisor find empty standard streams: it gives this process's own
// to the sandbox's first process, and their files to another owner.
func withoutStreams(do func() error) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	stdin, stdout, stderr := os.Stdin, os.Stdout, os.Stderr                   //nolint:forbidigo // gVisor reads them
	os.Stdin, os.Stdout, os.Stderr = null, null, null                         //nolint:forbidigo // gVisor reads them
	defer func() { os.Stdin, os.Stdout, os.Stderr = stdin, stdout, stderr }() //nolint:forbidigo // gVisor reads them
	return do()
}

// discard swallows gVisor's messages.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// inUserNamespace says whether this process is in a user namespace that maps
// only one user, where gVisor cannot change to another user.
func inUserNamespace() (bool, error) {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, err
	}
	var inside, outside, count uint64
	if _, err := fmt.Sscan(string(data), &inside, &outside, &count); err != nil {
		return false, fmt.Errorf("reading uid_map: %w", err)
	}
	return count < 65535, nil
}

// limit bounds the sentry from outside: every file it grows (the sandbox's memory, the
// writable layer) ends at a size that only an escape from the softer limits reaches.
// The sentry's threads also take 16 MiB of file for each process, and for each that is being forked, also where the
// processes' limit refuses that in the end: past this size the sentry dies, so there is room for twice what was seen.
func (b *Box) limit() error {
	l := b.config.Limits
	if l.Memory == 0 || l.Disk == 0 {
		return nil
	}
	const gib = 1 << 30
	processes := int64(max(l.Processes, 1024))
	size := max(l.Memory, l.Disk, 4*processes*16<<20) + 2*gib

	limit := &unix.Rlimit{Cur: uint64(size), Max: uint64(size)}
	if err := unix.Prlimit(b.SandboxPID(), unix.RLIMIT_FSIZE, limit, nil); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("limiting the sandbox: %w", err)
	}
	return nil
}

// Done is closed when the sandbox has ended, by Stop or because its kernel or its file server died.
func (b *Box) Done() <-chan struct{} { return b.done }

// StateDir is the directory of gVisor's own files, which every call uses.
func (b *Box) StateDir() string { return b.runtime.RootDir }

// Processes are the process ids of the sentry and the gofer.
func (b *Box) Processes() []int { return []int{b.processes[0].Pid, b.processes[1].Pid} }

// SandboxPID is the sentry's process id.
func (b *Box) SandboxPID() int { return b.processes[0].Pid }

// Stop kills everything inside, waits for its end and removes what Start made. It
// may be called again, and while the sandbox is frozen.
func (b *Box) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return nil
	}
	b.stopped = true
	if err := signal(unix.SIGKILL, b.processes...); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing the sandbox: %w", err)
	}
	b.wait.Wait()
	b.calling.Lock() // calls that are under way end with the sandbox
	b.destroyed = true
	err := b.container.Destroy()
	b.calling.Unlock()
	b.remove()
	return err
}

// errEnded is what remains to say of a sandbox that Stop has removed.
var errEnded = errors.New("the sandbox has ended")

// call asks something of gVisor. Its container takes no call beside or after its end: it would panic.
func (b *Box) call(do func(*container.Container) error) error {
	b.calling.RLock()
	defer b.calling.RUnlock()
	if b.destroyed {
		return errEnded
	}
	return do(b.container)
}

// abandon cleans up after a failed Start.
func (b *Box) abandon() {
	if b.container != nil {
		_ = b.container.Destroy()
	}
	b.remove()
}

// remove takes away the files. A start that failed may have left the view mounted; other mounts end with the namespace.
func (b *Box) remove() {
	for _, f := range []*os.File{b.guest, b.overlay, b.view} {
		if f != nil {
			_ = f.Close()
		}
	}
	if b.image != nil {
		b.image.image.Close()
	}
	if b.view == nil {
		_ = unix.Unmount(filepath.Join(b.config.Dir, "root"), unix.MNT_DETACH)
	}
	for _, name := range []string{"root", bundlePrefix + strconv.FormatInt(b.config.Limits.Memory, 10), "state"} {
		_ = os.RemoveAll(filepath.Join(b.config.Dir, name))
	}
}

// Freeze suspends the sentry, so that an idle sandbox costs no CPU: systrap polls even
// when nothing runs. Nothing may be going on in the sandbox. The gofer is not suspended: it waits for the sentry
// without polling, and it ends when the sentry's sockets close, which a suspended process does not see.
func (b *Box) Freeze() error { return signal(unix.SIGSTOP, b.processes[0]) }

// Thaw ends a Freeze.
func (b *Box) Thaw() error { return signal(unix.SIGCONT, b.processes[0]) }

// signal reaches gVisor's processes through their pidfds: gVisor forgets
// the number of a process that has ended, and kill(2) takes some numbers for "everybody".
func signal(sig unix.Signal, processes ...*os.Process) error {
	for _, process := range processes {
		if err := process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signalling the sandbox: %w", err)
		}
	}
	return nil
}

// Pause suspends every process inside; Resume lets them go on.
func (b *Box) Pause() error { return b.call((*container.Container).Pause) }

// Resume ends a Pause.
func (b *Box) Resume() error { return b.call((*container.Container).Resume) }
