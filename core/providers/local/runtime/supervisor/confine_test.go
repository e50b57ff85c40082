//go:build linux && !cgo

// A program with the C library cannot give up capabilities on all threads; see syscall.AllThreadsSyscall. sb-runtime
// has none.

package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// confined is the variable that makes this program confine itself; its value is a directory.
const confined = "SB_TEST_CONFINED"

func TestConfine(t *testing.T) {
	if dir := os.Getenv(confined); dir != "" {
		checkConfined(t, dir)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestConfine$", "-test.v=true")
	cmd.Env = append(os.Environ(), confined+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS} // as a client starts a supervisor
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func checkConfined(t *testing.T, dir string) {
	t.Helper()
	runtime.LockOSThread() // no_new_privs is the thread's
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	checkResolvers(t, filepath.Join(dir, "resolvers"))
	root := filepath.Join(dir, "jail")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	const peer = 1 // any other process
	if err := confine(root, []string{dir}, peer); err != nil {
		t.Fatal(err)
	}
	checkFiles(t)
	socket := func(family, kind, protocol int) error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	attempts := map[string]func() error{
		"start a program":      func() error { return unix.Exec("/bin/true", []string{"true"}, nil) },
		"make a namespace":     func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"mount":                func() error { return unix.Mount("x", dir, "tmpfs", 0, "") },
		"trace":                func() error { return unix.PtraceSeize(os.Getppid()) },
		"change its user":      func() error { return unix.Setresuid(-1, -1, -1) },
		"signal others":        func() error { return unix.Kill(os.Getppid(), 0) },
		"signal all":           func() error { return unix.Kill(-1, 0) },
		"open others":          func() error { _, err := unix.PidfdOpen(os.Getppid(), 0); return err },
		"limit others":         func() error { return unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, nil, &unix.Rlimit{}) },
		"make a device":        func() error { return unix.Mknod(filepath.Join(dir, "x"), unix.S_IFCHR|0o600, 0) },
		"open a raw socket":    func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
		"open a packet socket": func() error { return socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0) },
		"open an audit socket": func() error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) },
		"load a program":       func() error { _, _, errno := unix.Syscall(unix.SYS_BPF, 0, 0, 0); return errno },
	}
	maps.Copy(attempts, callsHere())
	for name, try := range attempts {
		if err := try(); err != unix.EPERM { //nolint:errorlint // a system call's own
			t.Errorf("it may %s: %v", name, err)
		}
	}
	// Calls that did not exist when the list was made.
	if _, _, errno := unix.Syscall(newestCall+1, 0, 0, 0); errno != unix.ENOSYS {
		t.Errorf("it may use a new system call: %v", errno)
	}
	// A supervisor needs the rest.
	if err := unix.Kill(os.Getpid(), 0); err != nil {
		t.Error(err)
	}
	if fd, err := unix.PidfdOpen(peer, 0); err != nil {
		t.Error(err)
	} else {
		_ = unix.Close(fd)
	}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() { time.Sleep(time.Millisecond) })
	}
	wg.Wait()
	if _, err := net.InterfaceAddrs(); err != nil {
		t.Error(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Error(err)
	}
	if err := socket(unix.AF_INET6, unix.SOCK_STREAM, 0); err != nil {
		t.Error(err)
	}
}

// checkFiles tries file operations that root's user id allows without capabilities.
func checkFiles(t *testing.T) {
	t.Helper()
	for name, try := range map[string]func() error{
		"change the programs that run by the clock": func() error { return os.WriteFile("/etc/crontab", nil, 0o600) },
		"make files beside its own":                 func() error { return os.WriteFile("/file", nil, 0o600) },
		"read another user's password":              func() error { _, err := os.ReadFile("/etc/shadow"); return err },
		"change the kernel's settings": func() error {
			f, err := os.OpenFile("/proc/sys/kernel/core_pattern", os.O_WRONLY, 0)
			if err == nil {
				_ = f.Close()
			}
			return err
		},
		"see the files of another process": func() error { _, err := os.ReadDir("/proc/1/root/"); return err },
		"read the memory of another process": func() error {
			f, err := os.Open("/proc/" + strconv.Itoa(os.Getppid()) + "/mem")
			if err == nil {
				_ = f.Close()
			}
			return err
		},
	} {
		if err := try(); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
			t.Errorf("it may %s: %v", name, err)
		}
	}
}

// checkResolvers shows a file behind a symbolic link, under a mount as containers have it, and one that is replaced.
func checkResolvers(t *testing.T, dir string) {
	t.Helper()
	root, file, link := filepath.Join(dir, "root"), filepath.Join(dir, "run", "resolv.conf"), filepath.Join(
		dir, "etc", "resolv.conf",
	)
	mounted := filepath.Join(dir, "mounted")
	for _, parent := range []string{root, filepath.Dir(file), filepath.Dir(link)} {
		if err := os.MkdirAll(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(text) != want {
			t.Errorf("the name servers are %q, not %q: %v", text, want, err)
		}
	}
	write(file, "below")
	write(mounted, "above")
	foreign := os.Geteuid() == 0 && os.Chown(filepath.Dir(file), 1, 1) == nil // else the directory is this user's
	if err := unix.Mount(mounted, file, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := showResolvers(root, []string{link, filepath.Join(dir, "none", "resolv.conf")}); err != nil {
		t.Fatal(err)
	}
	check("above")
	if target, err := os.Readlink(filepath.Join(root, link)); err != nil || target != file {
		t.Errorf("the link leads to %q: %v", target, err)
	}
	if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("the name servers can be changed: %v", err)
	}
	if !foreign {
		return
	}
	for _, path := range []string{file, filepath.Join(root, file)} {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
	write(mounted, "replaced")
	if err := os.Rename(mounted, file); err != nil {
		t.Fatal(err)
	}
	check("replaced")
}
