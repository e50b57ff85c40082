//go:build linux

package engine

import (
	"sync"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
)

// helperTasks is the number of tasks above the limit that sb-guest may start: threads of the sandbox's first process,
// and helpers. Without a thread that it needs sb-guest ends, and with its first process the sandbox.
const helperTasks = 256

// taskLimit bounds the tasks of a sandbox: processes and threads of all users together. RLIMIT_NPROC counts per user,
// and root inside can become any user. gVisor's controller of process numbers is a file system that root inside could
// mount and write.
type taskLimit struct {
	most int

	mu       sync.Mutex
	starting int // tasks that are being started, and may not be in the kernel's tables yet
}

// limitTasks makes the system calls that start tasks fail with EAGAIN at the limit. Call it in the sentry, before the
// sentry starts. Programs that the owner starts from outside count, and are not refused.
func limitTasks(most int) {
	limit := &taskLimit{most: most}
	for _, table := range kernel.SyscallTables() {
		for number, call := range table.Table {
			switch call.Name {
			case "fork", "vfork", "clone", "clone3":
				call.Fn = limit.around(call.Name, call.Fn)
				table.Table[number] = call
			}
		}
		table.Init() // it copies the functions to the lookup table
	}
}

func (l *taskLimit) around(name string, fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		// Go's runtime starts threads with clone.
		thread := name == "clone" && args[0].Uint64()&linux.CLONE_THREAD != 0
		if !l.begin(t, thread) {
			return 0, nil, linuxerr.EAGAIN
		}
		defer l.end()
		return fn(t, number, args)
	}
}

// begin reports whether a task may start another one, or a thread. The caller then calls end once the new task exists.
func (l *taskLimit) begin(t *kernel.Task, thread bool) bool {
	most := l.most
	first := t.Kernel().GlobalInit()
	if isHelper(t) || thread && t.ThreadGroup() == first {
		most += helperTasks
	} else if first != nil {
		most += first.Count() // the threads of the sandbox's first process are not the user's
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Kernel().RootPIDNamespace().NumTasks()+l.starting >= most {
		return false
	}
	l.starting++
	return true
}

func (l *taskLimit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting--
}

// helperMark is the capability of sb-guest's helpers, and has no effect in gVisor. It is in their bounding set, which
// no process can add to, except in a user namespace of its own. A program of root gets its bounding set as permitted
// capabilities (capabilities(7)), and only processes with the same permitted capabilities may trace it (ptrace(2)).
const helperMark = linux.CAP_WAKE_ALARM

func isHelper(t *kernel.Task) bool {
	creds := t.Credentials()
	return creds.UserNamespace == t.Kernel().RootUserNamespace() &&
		creds.BoundingCaps&auth.CapabilitySetOf(helperMark) != 0
}
