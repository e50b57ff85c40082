//go:build linux

package box

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setupOnly returns the capabilities that the box may have for its preparation. No process in the sandbox has them.
func setupOnly() []uintptr { return []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SETPCAP} }

// dropSetup drops the capabilities that only the setup needs, on all threads, and protects this process from the
// sandbox. Without CAP_SYS_PTRACE no process in the sandbox can read its memory or its files.
func dropSetup() error {
	var caps [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	for _, c := range setupOnly() {
		if caps[0].Permitted&(1<<c) == 0 {
			continue
		}
		// CAP_SETPCAP comes last, because changes of the bounding set need it.
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errno != 0 {
			return errno
		}
	}
	for _, c := range setupOnly() {
		caps[0].Permitted &^= 1 << c
		caps[0].Effective &^= 1 << c
		caps[0].Inheritable &^= 1 << c
	}
	_, _, errno := syscall.AllThreadsSyscall(
		unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&caps[0])), 0,
	)
	if errno != 0 {
		return errno
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
