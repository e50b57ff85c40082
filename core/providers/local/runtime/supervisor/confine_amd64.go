//go:build linux

package supervisor

import "golang.org/x/sys/unix"

// refusedHere are the system calls of amd64 alone that a supervisor does not need. fork and vfork make processes, as
// clone does without flags.
func refusedHere() []uint32 {
	return []uint32{
		unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_MKNOD, unix.SYS_USELIB, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT,
		unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_NFSSERVCTL,
	}
}
