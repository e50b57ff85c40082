//go:build linux

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The host image is an allow-list: other files do not exist for the sandbox. Homes, /root, /srv, /var, /run, mail, keys
// and credentials are not on the list.

// hostTrees are shown read-only. Two parts are not shown: files that other users cannot read, and mounts below the
// trees except hostMounts. See package hostview.
func hostTrees() []string {
	return []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "var/lib/dpkg", "var/lib/python"}
}

// hostMounts are the directories below hostTrees that may be mount points.
func hostMounts() []string { return []string{"/usr/local", "/usr/share"} }

// hostConfigs are the entries of /etc that programs need and that hold no secrets. They may be patterns.
func hostConfigs() []string {
	return strings.Fields(`alternatives bash.bashrc ca-certificates ca-certificates.conf crypto-policies
		debian_version default/locale fonts gai.conf gcrypt host.conf inputrc ipython issue java-* ld.so.cache
		ld.so.conf ld.so.conf.d libnl* locale.alias locale.conf locale.gen localtime login.defs lsb-release
		machine-info magic magic.mime mailcap matplotlibrc mime.types nanorc networks node openssl* os-release perl pki/tls
		pki/ca-trust profile profile.d protocols python* rpc ruby* services shells skel ssl/certs ssl/openssl.cnf
		ssl/ct_log_list.cnf system-release terminfo timezone vim xattr.conf xdg zsh*`)
}

// skeleton are the directories of every sandbox, with their modes. The directory in /tmp prevents gVisor from mounting
// a filesystem in memory there, which disk limits would not bound. All users can write to the home of "user": if only
// this machine's user is mapped, the home cannot have another owner.
func skeleton() map[string]fs.FileMode {
	return map[string]fs.FileMode{
		"dev": 0o755, "proc": 0o555, "sys": 0o555, "etc": 0o755, "home": 0o755, "home/user": 0o777 | fs.ModeSticky,
		"mnt": 0o755, "media": 0o755,
		"opt": 0o755, "root": 0o700, "run": 0o755, "run/lock": 0o755 | fs.ModeSticky, "srv": 0o755, "var": 0o755,
		"var/lib":   0o755,
		"var/cache": 0o755, "var/log": 0o755, "tmp": 0o777 | fs.ModeSticky, "tmp/.X11-unix": 0o777 | fs.ModeSticky,
		"var/tmp": 0o777 | fs.ModeSticky,
	}
}

// buildHostRoot makes the view of this machine's programs at dir, an existing directory. The process must be in its own
// mount namespace, whose end removes the view.
func buildHostRoot(dir string, config Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("sb", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=16m,mode=0755"); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	for name, mode := range skeleton() {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	for _, name := range hostTrees() {
		if err := show(dir, name); err != nil {
			return err
		}
	}
	for _, pattern := range hostConfigs() {
		matches, err := filepath.Glob(filepath.Join("/etc", pattern))
		if err != nil {
			return err
		}
		for _, match := range matches {
			if err := show(dir, strings.TrimPrefix(match, "/")); err != nil {
				return err
			}
		}
	}
	if err := writeIdentity(filepath.Join(dir, "etc"), config); err != nil {
		return err
	}
	return config.showCopied(dir)
}

// show makes the host's /name visible at dir/name. It copies a symbolic link, and mounts other files read-only. It
// leaves out files that do not exist, or that this user or others may not see.
func show(dir, name string) error {
	source, target := filepath.Join("/", name), filepath.Join(dir, name)
	if open, err := othersEnter(filepath.Dir(source)); err != nil || !open {
		return err
	}
	info, err := os.Lstat(source)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		link, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(link, target)
	case info.IsDir():
		err = os.MkdirAll(target, 0o755)
	case info.Mode().IsRegular():
		err = os.WriteFile(target, nil, 0o644) //nolint:gosec // only a place to mount on
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return bindReadOnly(source, target)
}

// othersEnter reports whether other users of this machine may enter a directory and those above it.
func othersEnter(dir string) (bool, error) {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if info.Mode()&0o001 == 0 {
			return false, nil
		}
		if dir == "/" {
			return true, nil
		}
	}
}

// bindReadOnly clones the mounts below source, makes all of them read-only, and
// only then attaches them.
func bindReadOnly(source, target string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", source, err)
	}
	defer func() { _ = unix.Close(tree) }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("making %s read-only: %w", source, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching %s: %w", source, err)
	}
	return nil
}

// hostPasswd lists the users of the view of this machine.
const hostPasswd = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n" +
	"bin:x:2:2:bin:/bin:/usr/sbin/nologin\nsys:x:3:3:sys:/dev:/usr/sbin/nologin\n" +
	"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n" +
	"user:x:1000:1000:user:/home/user:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"

// HostPasswd returns /etc/passwd of a sandbox without an image.
func HostPasswd() []byte { return []byte(hostPasswd) }

// writeIdentity writes the sandbox's own files in /etc.
func writeIdentity(etc string, config Config) error {
	files := identity(config)
	maps.Copy(files, map[string]string{
		"passwd": hostPasswd,
		"group":  "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\nwww-data:x:33:\nshadow:x:42:\nstaff:x:50:\nusers:x:100:\nuser:x:1000:\nnogroup:x:65534:\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: " +
			"files\nservices: files\nethers: files\nrpc: files\n",
	})
	for name, text := range files {
		//nolint:gosec // these are the world-readable files of a sandbox's /etc
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// identity returns the files of /etc with the sandbox's names and its resolver.
func identity(config Config) map[string]string {
	resolver := ""
	if config.Network != nil {
		resolver = "nameserver " + config.Network.Gateway.String() + "\noptions timeout:5\n"
	}
	return map[string]string{
		"hostname": config.Hostname + "\n",
		"hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t" + config.Hostname +
			"\n",
		"resolv.conf": resolver,
	}
}
