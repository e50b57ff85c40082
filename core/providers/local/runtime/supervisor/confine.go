//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// confine drops all rights of this process that a running sandbox does not need, because the process parses packets of
// the sandbox. It applies to all threads and cannot be undone.
//
// The process sees only its own files (see enterJail). It has no capabilities. It cannot start programs, make
// namespaces or mounts, or trace processes. It can signal only itself and the processes in peers. It can open only
// unix, IP and route sockets. dirs are the writable directories, the sandbox's directory first.
func confine(root string, dirs []string, peers ...int) error {
	keep := uint64(0)
	// With sudo the state directory can be another user's.
	if !owned(dirs[0]) {
		keep = 1 << unix.CAP_DAC_OVERRIDE
	}
	if err := enterJail(root, dirs...); err != nil {
		return fmt.Errorf("hiding the machine's files: %w", err)
	}
	if err := limitCapabilities(keep); err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	// Other processes of the same user must not read this process's memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protecting the memory: %w", err)
	}
	if err := installFilter(peers...); err != nil {
		return fmt.Errorf("installing the system call filter: %w", err)
	}
	return nil
}

// limitCapabilities removes the capabilities that are not in the set keep from every thread.
func limitCapabilities(keep uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	for i := range sets {
		set := uint32(keep>>(32*i)) & sets[i].Permitted //nolint:gosec // one half of it
		sets[i] = unix.CapUserData{Effective: set, Permitted: set}
	}
	_, _, errno := syscall.AllThreadsSyscall(
		unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])), 0,
	)
	if errno != 0 {
		return errno
	}
	return nil
}

// Results of a filter of seccomp(2), and offsets in its input, struct seccomp_data.
const (
	filterAllow   = 0x7fff0000
	filterErrno   = 0x00050000
	offsetNumber  = 0
	offsetArch    = 4
	offsetFirst   = 16 // the low half of the first argument
	offsetThird   = 32
	foreignNumber = 0x40000000 // numbers from here on belong to the x32 interface
)

// newestCall is the highest number of a system call that this list was made with. The numbers of later ones are the
// same on all architectures.
const newestCall = unix.SYS_RSEQ_SLICE_YIELD

// refused are the system calls of all architectures that a supervisor does not need once the sandbox runs.
func refused() []uint32 {
	return []uint32{
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
		unix.SYS_KCMP,
		unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PERSONALITY,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
		unix.SYS_FSOPEN,
		unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
		unix.SYS_IO_URING_REGISTER,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
		unix.SYS_DELETE_MODULE,
		unix.SYS_OPEN_TREE_ATTR, unix.SYS_QUOTACTL_FD, unix.SYS_PROCESS_MRELEASE, unix.SYS_LSM_SET_SELF_ATTR,
		unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
		unix.SYS_QUOTACTL,
		unix.SYS_SYSLOG,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_MKNODAT,
		unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
		unix.SYS_SETGROUPS,
		unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_CAPSET, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_VHANGUP,
		unix.SYS_LOOKUP_DCOOKIE,
		// Calls that need only the same user id for other processes.
		unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
		unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_SEMOP,
		unix.SYS_SEMTIMEDOP,
		unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	}
}

// filter returns the program of the system call filter. This process may signal itself and the processes in peers.
func filter(peers ...int) ([]bpf.RawInstruction, error) {
	allow, deny := bpf.RetConstant{Val: filterAllow}, bpf.RetConstant{Val: filterErrno | uint32(unix.EPERM)}
	equal := func(value uint32, otherwise uint8) bpf.JumpIf {
		return bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: otherwise}
	}
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
		unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch(), SkipTrue: 1},
		deny,
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: foreignNumber, SkipTrue: 1},
		deny,
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newestCall, SkipFalse: 1},
		bpf.RetConstant{Val: filterErrno | uint32(unix.ENOSYS)}, // as on a kernel without it
		// clone may only make threads.
		equal(unix.SYS_CLONE, 5),
		bpf.LoadAbsolute{Off: offsetFirst, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: unix.CLONE_THREAD | namespaces},
		equal(unix.CLONE_THREAD, 1), allow, deny,
		equal(unix.SYS_CLONE3, 1),
		bpf.RetConstant{Val: filterErrno | uint32(unix.ENOSYS)}, // the filter cannot see its flags
		equal(unix.SYS_SOCKET, 12),
		bpf.LoadAbsolute{Off: offsetFirst, Size: 4},
		equal(unix.AF_UNIX, 1), allow, equal(unix.AF_INET, 1), allow, equal(unix.AF_INET6, 1), allow,
		equal(unix.AF_NETLINK, 3),
		bpf.LoadAbsolute{Off: offsetThird, Size: 4},
		equal(unix.NETLINK_ROUTE, 1), allow, deny,
	}
	// The first argument of these calls is a process id.
	self := os.Getpid()
	known := append(slices.Clone(peers), self)
	for number, processes := range map[uint32][]int{
		unix.SYS_KILL: known, unix.SYS_PIDFD_OPEN: known, unix.SYS_TGKILL: {self}, unix.SYS_PRLIMIT64: {0, self},
	} {
		//nolint:gosec // few
		program = append(program, equal(number, uint8(2*len(processes)+2)), bpf.LoadAbsolute{Off: offsetFirst, Size: 4})
		for _, pid := range processes {
			program = append(program, equal(uint32(pid), 1), allow) //nolint:gosec // a process id
		}
		program = append(program, deny)
	}
	for _, number := range append(refused(), refusedHere()...) {
		program = append(program, equal(number, 1), deny)
	}
	return bpf.Assemble(append(program, allow))
}

// auditArch returns the architecture in the form of the filter: linux/audit.h.
func auditArch() uint32 {
	if runtime.GOARCH == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

// installFilter installs the filter on every thread. The client set no_new_privs before it started this program.
func installFilter(peers ...int) error {
	program, err := filter(peers...)
	if err != nil {
		return err
	}
	raw := make([]unix.SockFilter, len(program))
	for i, in := range program {
		raw[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	code := unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]} //nolint:gosec // a few hundred
	_, _, errno := unix.Syscall(
		unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&code)),
	)
	runtime.KeepAlive(raw)
	if errno != 0 {
		return errno
	}
	return nil
}
