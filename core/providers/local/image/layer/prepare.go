package layer

import "github.com/seed-0724f904/sb/core/providers/local/image/erofs"

// Prepare adds missing mount points and the working directory. It comes after the last layer. So the mounts of a
// sandbox make no files in its writable layer. KindUsage: /dev, /proc or /sys of the image is not a directory.
func (t *Tree) Prepare(workdir string) error {
	for _, name := range []string{"dev", "proc", "sys"} {
		// A program inside could replace a link, and so the mounts below it.
		if at := t.out.Root.Child(name); at != nil && !at.IsDir() {
			return refused("/"+name, "the image's /%s is not a directory", name)
		}
		if _, err := t.directory("/"+name, []string{name}); err != nil {
			return err
		}
	}
	if err := t.prepareTemporary(); err != nil {
		return err
	}
	etc, err := t.directory("/etc", []string{"etc"})
	if err != nil {
		return err
	}
	for _, name := range []string{"hosts", "hostname", "resolv.conf"} {
		// A link may be broken, so it is no mount point.
		if at := etc.Child(name); at != nil && at.IsFile() {
			continue
		}
		t.remove(etc, name)
		if err := t.make(etc, name, erofs.TypeFile|0o644); err != nil {
			return err
		}
	}
	parts, err := split(workdir)
	if err == nil {
		_, err = t.directory(workdir, parts)
	}
	return err
}

// prepareTemporary adds an entry to /tmp, because gVisor mounts a file system in memory over an empty /tmp. Disk limits
// do not apply to that file system, and it is never saved.
func (t *Tree) prepareTemporary() error {
	const mode = erofs.TypeDir | 0o1777
	at := t.out.Root.Child("tmp")
	if at == nil {
		if err := t.make(t.out.Root, "tmp", mode); err != nil {
			return err
		}
		at = t.out.Root.Child("tmp")
	}
	if !at.IsDir() {
		return nil
	}
	for range at.Children {
		return nil
	}
	return t.make(at, ".X11-unix", mode)
}

// make makes an empty file or directory that root owns.
func (t *Tree) make(dir *erofs.Node, name string, mode uint16) error {
	if err := t.count(name); err != nil {
		return err
	}
	return t.add(dir, name, erofs.NewNode(erofs.Attr{Mode: mode}), name)
}
