//go:build linux

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
)

// child is a started supervisor that has not reported yet that it is ready.
type child struct {
	pid     int
	process *os.Process
	stdin   *os.File
	stdout  *os.File
}

// spawn starts program as a supervisor in a new session and in the namespaces of inNamespaces. The supervisor has an
// empty environment and the lock as descriptor 3, and no other descriptor of the caller. It runs on cpu cores, rounded
// up, and in the control group unless that is nil.
func spawn(program string, cpu float64, group *cgroup.Group, lock, log *os.File) (*child, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = inR.Close() }()
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inW.Close())
	}
	defer func() { _ = outW.Close() }()
	//nolint:noctx // the supervisor outlives the process that starts it
	cmd := exec.Command(program, "supervise")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, log
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = inNamespaces()
	if group != nil && group.Version == 2 {
		dir, err := os.Open(group.Dirs[0])
		if err != nil {
			return nil, errors.Join(err, inW.Close(), outR.Close())
		}
		defer func() { _ = dir.Close() }()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if err := keepDescriptors(); err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	started := make(chan error)
	go func() {
		// The child inherits the settings of this thread. The thread is never unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		err := prepareThread(cpu)
		switch {
		case err != nil:
		case group != nil && group.Version == 1:
			err = group.Inside(cmd.Start)
		default:
			err = cmd.Start()
		}
		started <- err
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	return &child{pid: cmd.Process.Pid, process: cmd.Process, stdin: inW, stdout: outR}, nil
}

// keepDescriptors marks the descriptors that this process inherited, so that its children do not inherit them. A
// sandbox would keep a lock or a pipe of its launcher, and a compromised supervisor could use an open directory.
func keepDescriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd) // a descriptor that was closed since is ignored
		}
	}
	return err
}

// send sends a request to the child.
func (c *child) send(request any) error { return json.NewEncoder(c.stdin).Encode(request) }

func (c *child) kill() { _ = c.process.Kill() }

// wait reaps a child that was killed.
func (c *child) wait() { _, _ = c.process.Wait() }

// release releases the child without waiting for it.
func (c *child) release() {
	_ = c.stdin.Close()
	_ = c.stdout.Close()
	_ = c.process.Release()
}

// prepareThread gives the calling thread the settings of a supervisor: no new privileges, whole cores, and a filter
// that answers membarrier(2) with ENOSYS. The filter saves 10 ms for each process of gVisor: registering for expedited
// membarriers waits for an RCU grace period. gVisor works without them.
func prepareThread(cpu float64) error {
	if err := pinTo(cpu); err != nil {
		return fmt.Errorf("choosing the processors: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("disabling new privileges: %w", err)
	}
	const returnErrno, returnAllow = 0x00050000, 0x7fff0000 // seccomp(2): SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MEMBARRIER, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: returnErrno | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: returnAllow},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // four
	if err := unix.Prctl(
		unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0,
	); err != nil {
		return fmt.Errorf("installing the membarrier filter: %w", err)
	}
	return nil
}

// pinTo restricts the calling thread to as many processors as cpu rounds up to.
func pinTo(cpu float64) error {
	if cpu == 0 {
		return nil
	}
	var have unix.CPUSet
	if err := unix.SchedGetaffinity(0, &have); err != nil {
		return err
	}
	want := int(math.Ceil(cpu))
	if want >= have.Count() {
		return nil
	}
	var all []int
	for n := 0; len(all) < have.Count(); n++ {
		if have.IsSet(n) {
			all = append(all, n)
		}
	}
	var chosen unix.CPUSet
	for _, i := range rand.Perm(len(all))[:want] { //nolint:gosec // the choice of a processor is public
		chosen.Set(all[i])
	}
	return unix.SchedSetaffinity(0, &chosen)
}

// errKind classifies why a process could not be started.
func errKind(err error) core.Kind {
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOSPC):
		return core.KindExhausted
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.ENOSYS):
		return core.KindUnavailable
	}
	return core.KindInternal
}
