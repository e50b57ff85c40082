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
	"time"

	"golang.org/x/sys/unix"

	gvlog "gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/specutils"
)

// Box is a running sandbox. Its methods are safe for concurrent use. While it is frozen, only Thaw, CountFromNow, Stop
// and Done may be called.
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

	uncounted time.Duration // processor time that Usage leaves out

	mu      sync.Mutex
	stopped bool
	overlay *os.File // the writable layer
	view    *os.File // the view of the machine, after its mount is gone
	image   *rootImage
}

// Start builds the sandbox's root directory and starts a sandbox in it. A process can call it once, because gVisor
// passes the process's standard streams to the sandbox's first process. The process must be in its own mount namespace.
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
	if err := box.run(ctx); err != nil {
		return nil, err
	}
	return box, nil
}

// run starts the sandbox in gVisor's processes, which create has started.
func (b *Box) run(ctx context.Context) error {
	// The sentry waits for a gofer without end if the gofer dies while the sandbox starts.
	b.wait.Go(b.endWithGofer)
	begin := b.begin
	if b.config.Image != nil {
		begin = b.goOn
	}
	if err := begin(ctx); err != nil {
		return err
	}
	if err := b.limit(); err != nil {
		return err
	}
	if err := b.hold(); err != nil {
		return err
	}
	b.wait.Go(func() {
		defer close(b.done)
		awaitExit(b.SandboxPID())
	})
	return nil
}

// endWithGofer kills the sentry when the gofer has ended. Without a gofer the sentry runs, but can open no files.
func (b *Box) endWithGofer() {
	sentry, gofer := b.processes[0], b.processes[1]
	awaitExit(gofer.Pid)
	_ = signal(unix.SIGKILL, sentry) // it is a child of this process
}

// hold opens files that are needed later, because opening them needs privileges. It unmounts the view and the volumes:
// the gofer has its own mounts.
func (b *Box) hold() error {
	if err := b.config.detachVolumes(); err != nil {
		return err
	}
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

// below returns the files below the writable layer: the image, or the view of the machine. The result is valid during a
// call, because Stop waits for all calls before it closes either.
func (b *Box) below() lower {
	view := hostLower(filepath.Join("/proc/self/fd", strconv.Itoa(int(b.view.Fd()))))
	if b.image != nil {
		return withCopied{b.image, b.config.copied(), view}
	}
	return view
}

// configureGVisor sets gVisor's global state in this process.
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

// create builds the sandbox's root and starts gVisor's processes. Nothing runs in the sandbox yet.
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
		if err := c.checkCopied(b.image); err != nil {
			return err
		}
	}
	if err := build(root, c); err != nil {
		return err
	}
	if err := c.attachVolumes(); err != nil {
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
	bundle, err := writeBundle(c.Dir, spec, c.Limits)
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

// findProcesses finds the sentry and the gofer.
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
	// The interfaces exist already. With "host" Start does not look for interfaces in the network namespace, which is
	// empty.
	started := *b.runtime
	started.Network = config.NetworkHost
	if err := b.container.Start(&started); err != nil {
		return fmt.Errorf("starting the sandbox: %w", err)
	}
	return nil
}

// stateDir makes the directory for gVisor's files. If its path is too long for a socket, stateDir mounts it at a short
// path in this process's mount namespace.
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

// awaitExit blocks until a child has ended, and does not reap it: gVisor does. gVisor's Wait would not be safe here,
// because it must not run concurrently with other calls.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// withoutStreams replaces the standard streams by /dev/null during do. gVisor passes this process's streams to the
// sandbox's first process, and changes the owner of their files.
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

// discard discards gVisor's messages.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// inUserNamespace reports whether this process is in a user namespace that maps only one user. In such a namespace
// gVisor cannot change to another user.
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

// limit bounds the size of each file of the sentry: the sandbox's memory, and the writable layer. Only an escape from
// the other limits reaches this size, and the sentry dies then. The sentry's threads also need 16 MiB of file for each
// process and for each fork, even if the limit of processes then refuses the fork. So limit allows twice the size that
// was measured.
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

// Done returns a channel that is closed when the sandbox has ended: by Stop, or because its kernel or its file server
// died.
func (b *Box) Done() <-chan struct{} { return b.done }

// StateDir returns the directory of gVisor's files. Every call uses it.
func (b *Box) StateDir() string { return b.runtime.RootDir }

// Processes returns the process ids of the sentry and the gofer.
func (b *Box) Processes() []int { return []int{b.processes[0].Pid, b.processes[1].Pid} }

// SandboxPID returns the sentry's process id.
func (b *Box) SandboxPID() int { return b.processes[0].Pid }

// Stop kills all processes inside, waits for their end and removes the files of Start. It may be called again, and
// while the sandbox is frozen.
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
	b.calling.Lock() // pending calls end with the sandbox
	b.destroyed = true
	err := b.container.Destroy()
	b.calling.Unlock()
	b.remove()
	return err
}

// errEnded is the error of calls after Stop.
var errEnded = errors.New("the sandbox has ended")

// call calls gVisor. It prevents calls during and after the container's destruction, which would panic.
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
	_ = signal(unix.SIGKILL, b.processes...)
	if b.container != nil {
		_ = b.container.Destroy()
	}
	b.wait.Wait()
	_ = b.config.detachVolumes()
	b.remove()
}

// remove removes the files, and the view's mount, which a failed start may leave. Other mounts end with the namespace.
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
	for _, name := range []string{"root", bundleName(b.config.Limits), "state"} {
		_ = os.RemoveAll(filepath.Join(b.config.Dir, name))
	}
}

// Freeze suspends the sentry, so that an idle sandbox costs no CPU: systrap polls even when nothing runs. No call may
// be pending in the sandbox. Freeze does not suspend the gofer, which waits without polling. The gofer must notice the
// end of the sentry's sockets, which a suspended process cannot.
func (b *Box) Freeze() error { return signal(unix.SIGSTOP, b.processes[0]) }

// Thaw resumes the sentry after Freeze.
func (b *Box) Thaw() error { return signal(unix.SIGCONT, b.processes[0]) }

// signal sends a signal to gVisor's processes through their pidfds. Process ids would not be safe: gVisor resets the id
// of an ended process, and kill(2) treats some numbers as all processes.
func signal(sig unix.Signal, processes ...*os.Process) error {
	for _, process := range processes {
		if err := process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signaling the sandbox: %w", err)
		}
	}
	return nil
}

// Pause suspends every process inside. Resume continues them.
func (b *Box) Pause() error { return b.call((*container.Container).Pause) }

// Resume continues the processes after Pause.
func (b *Box) Resume() error { return b.call((*container.Container).Resume) }
