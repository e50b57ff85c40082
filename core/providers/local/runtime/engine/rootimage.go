//go:build linux

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/erofs"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/runsc/boot"
)

// rootImage is an EROFS file. It is read with the code of the sandbox's kernel.
type rootImage struct{ image *erofs.Image }

var _ lower = rootImage{}

func openRootImage(path string) (*rootImage, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	image, err := erofs.OpenImage(file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("reading the image %s: %w", path, err)
	}
	return &rootImage{image}, nil
}

// ImageFile returns the first limit bytes of a regular file in an EROFS file. It follows no link.
func ImageFile(image, name string, limit int) ([]byte, error) {
	root, err := openRootImage(image)
	if err != nil {
		return nil, err
	}
	defer root.image.Close()
	inode, err := root.inode(name)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	if !inode.IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	data, err := inode.Data()
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	text := make([]byte, min(uint64(limit), data.NumBytes())) //nolint:gosec // not negative
	n, err := safemem.CopySeq(safemem.BlockSeqOf(safemem.BlockFromSafeSlice(text)), data)
	return text[:n], err
}

// inode finds a file. It does not follow links, so there are no files below a link.
func (r rootImage) inode(name string) (erofs.Inode, error) {
	at, err := r.image.Inode(r.image.RootNid())
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if err != nil || part == "" {
			return at, err
		}
		if !at.IsDir() {
			return at, unix.ENOTDIR
		}
		var next uint64
		if next, err = at.Lookup(part); err == nil {
			at, err = r.image.Inode(next)
		}
		if linuxerr.Equals(linuxerr.ENOENT, err) {
			err = fs.ErrNotExist
		}
	}
	return at, err
}

// Lstat implements lower.
func (r rootImage) Lstat(name string) (fs.FileInfo, error) {
	inode, err := r.inode(name)
	if err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return rootFile{path.Base(name), inode}, nil
}

// ReadDir implements lower.
func (r rootImage) ReadDir(name string) ([]fs.DirEntry, error) {
	inode, err := r.inode(name)
	var entries []fs.DirEntry
	if err == nil {
		err = inode.IterDirents(func(entry string, _ uint8, nid uint64) error {
			if entry == "." || entry == ".." {
				return nil
			}
			child, err := r.image.Inode(nid)
			entries = append(entries, fs.FileInfoToDirEntry(rootFile{entry, child}))
			return err
		})
	}
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	return entries, nil
}

// rootFile describes a file of an image.
type rootFile struct {
	name  string
	inode erofs.Inode
}

var _ fs.FileInfo = rootFile{}

func (f rootFile) Name() string { return f.name }
func (f rootFile) Size() int64  { return int64(f.inode.Size()) } //nolint:gosec // a file's size
func (f rootFile) IsDir() bool  { return f.inode.IsDir() }
func (f rootFile) Sys() any     { return nil }

func (f rootFile) ModTime() time.Time {
	return time.Unix(int64(f.inode.Mtime()), int64(f.inode.MtimeNsec())) //nolint:gosec // a time
}

func (f rootFile) Mode() fs.FileMode {
	mode := fs.FileMode(f.inode.Mode()) & fs.ModePerm
	for raw, bit := range map[uint16]fs.FileMode{
		unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky,
	} {
		if f.inode.Mode()&raw != 0 {
			mode |= bit
		}
	}
	switch f.inode.Mode() & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	default:
		mode |= fs.ModeIrregular // a device, a pipe or a socket
	}
	return mode
}

// check returns an error if a mount point of the image is a link. Root inside could replace a link, and so sb-guest.
func (r rootImage) check() error {
	for _, name := range []string{"/dev", "/proc", "/sys"} {
		info, err := r.Lstat(name)
		if err != nil {
			return fmt.Errorf("the image's %s: %w", name, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("the image's %s is not a directory", name)
		}
	}
	return nil
}

// buildImageRoot makes the sandbox's own files at dir, for a sandbox from an image. They are in memory. Their number
// and size are limited, because the sandbox can write to them.
func buildImageRoot(dir string, config Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	inodes := 16 + len(config.Files)
	if len(config.copied()) > 0 {
		inodes += 4096 // the gofer makes the mount points of volumes here
	}
	size := 256 << 10
	for _, f := range config.Files {
		size += len(f.Content) + os.Getpagesize()
	}
	options := fmt.Sprintf("size=%d,mode=0755,nr_inodes=%d", size, inodes)
	if err := unix.Mount("sb", dir, "tmpfs", flags, options); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	if err := config.showCopiedInImage(dir); err != nil {
		return err
	}
	for i, f := range config.Files {
		name := filepath.Join(dir, fileName(i))
		if err := errors.Join(os.WriteFile(name, f.Content, 0o600), os.Chmod(name, f.Mode)); err != nil {
			return err
		}
	}
	for name, text := range identity(config) {
		//nolint:gosec // these are the world-readable files of a sandbox's /etc
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fileName returns the name of a file of Config.Files in the root directory.
func fileName(i int) string { return "file-" + strconv.Itoa(i) }

// fileMounts mounts the files of Config.Files.
func fileMounts(root string, files []File) []specs.Mount {
	var mounts []specs.Mount
	for i, f := range files {
		mounts = append(mounts, specs.Mount{
			Destination: f.Path, Type: "bind", Source: filepath.Join(root, fileName(i)),
			Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"},
		})
	}
	return mounts
}

// identityMounts mounts the files of buildImageRoot in the sandbox's /etc. The image has files there as mount points.
func identityMounts(root string) []specs.Mount {
	var mounts []specs.Mount
	for _, name := range []string{"hostname", "hosts", "resolv.conf"} {
		mounts = append(mounts, specs.Mount{
			Destination: "/etc/" + name, Type: "bind", Source: filepath.Join(root, name),
			Options: []string{"bind", "rw", "nosuid", "nodev", "noexec"},
		})
	}
	return mounts
}

// rootAnnotations make gVisor read the root directory from the image.
func (c Config) rootAnnotations() map[string]string {
	annotations := map[string]string{
		boot.RootfsPrefix + "type":   "erofs",
		boot.RootfsPrefix + "source": c.RootImage,
		// runtimeConfig sets the actual directory. This value must not change, because a resume from a checkpoint compares
		// it.
		boot.RootfsPrefix + "overlay": "dir=/",
	}
	if c.Limits.Disk > 0 {
		annotations[boot.RootfsPrefix+"options"] = "size=" + strconv.FormatInt(c.Limits.Disk, 10)
	}
	return annotations
}

// allowRootImage enables a gofer to set up its root if gVisor's kernel reads the root from an image. Such a gofer makes
// the mount of its root unbindable. It then binds a directory of that mount, which fails with EINVAL. So the filter
// turns the call that makes a mount unbindable into a no-op. Without that call a bind mount also copies this mount, and
// the copy disappears with the old root.
func allowRootImage(argv []string) error {
	if !slices.ContainsFunc(argv, func(arg string) bool { return strings.HasPrefix(arg, "--gofer-mount-confs=erofs:") }) ||
		slices.Contains(argv, "--setup-root=false") {
		return nil
	}
	const returnErrno, returnAllow = 0x00050000, 0x7fff0000 // seccomp(2): SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW
	// In struct seccomp_data: the call, and the low half of its fourth argument.
	const number, flags = 0, 40
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MOUNT, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.MS_UNBINDABLE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: returnErrno},
		{Code: unix.BPF_RET | unix.BPF_K, K: returnAllow},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // six
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("installing the mount filter: %w", errno)
	}
	return nil
}
