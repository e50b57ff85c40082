//go:build linux

package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// inNamespaces returns the attributes of a supervisor's process: a new session and a new mount namespace. If this
// process may not make mount namespaces, like one of an ordinary user, it also gets a user namespace, in which it is
// root.
func inNamespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNS}
	if !administers() {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// administers reports whether this process is root with the capability to mount file systems. Root in a container often
// lacks it.
func administers() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return os.Geteuid() == 0 && err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// namespacesHint is the advice for a process that may not make namespaces although the machine allows them.
const namespacesHint = "in a container, start it with --cap-add SYS_ADMIN --security-opt seccomp=unconfined " +
	"--security-opt apparmor=unconfined, or with --privileged"

// namespacesOff returns the setting of this machine that forbids the namespaces of a sandbox, and the command that
// changes it.
func namespacesOff() (why, fix string) {
	if administers() {
		return "", ""
	}
	for _, knob := range []struct{ file, bad, why, fix string }{
		{
			"/proc/sys/user/max_user_namespaces", "0", "this machine allows no user namespaces",
			"sudo sysctl -w user.max_user_namespaces=28633",
		},
		{
			"/proc/sys/kernel/unprivileged_userns_clone", "0", "only root may make user namespaces",
			"sudo sysctl -w kernel.unprivileged_userns_clone=1",
		},
		{
			"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"AppArmor restricts the user namespaces of ordinary users",
			"sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
		},
	} {
		if value, err := os.ReadFile(knob.file); err == nil && strings.TrimSpace(string(value)) == knob.bad {
			return knob.why, knob.fix
		}
	}
	return "", ""
}

// namespaceFinding starts a program in the namespaces of a supervisor, because a container's filters show in no file.
func (p *Provider) namespaceFinding(ctx context.Context) core.Finding {
	const name = "namespaces"
	if why, fix := namespacesOff(); why != "" {
		return core.Finding{Name: name, Status: statusError, Detail: why, Fix: fix}
	}
	found, err := p.programs()
	if err != nil {
		return core.Finding{Name: name, Status: statusWarning, Detail: "not tried without sb-runtime"}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	try := exec.CommandContext(ctx, found.runtime, "version") //nolint:gosec // the program of each launch
	try.SysProcAttr = inNamespaces()
	if err := try.Run(); err != nil {
		return core.Finding{
			Name: name, Status: statusError, Detail: "they cannot be made: " + err.Error(), Fix: namespacesHint,
		}
	}
	return core.Finding{Name: name, Status: statusOK}
}

// startHint returns the advice for an error of a supervisor's start.
func startHint(err error) string {
	if errors.Is(err, unix.EPERM) {
		return namespacesHint
	}
	return "sb doctor shows the problems of this machine"
}
