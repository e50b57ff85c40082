//go:build linux

package engine

import (
	"archive/tar"
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/container"

	"github.com/seed-0724f904/sb/core"
)

// opaque marks a directory in an archive of the writable layer. Such a directory hides the entries below it.
const opaque = "SCHILY.xattr.trusted.overlay.opaque"

// Diff lists the changes of the writable layer, sorted by path. It reads the layer only, not the whole root. It leaves
// out directories where only entries changed.
func (b *Box) Diff() (changes []core.Change, err error) {
	err = b.call(func(c *container.Container) error {
		changes, err = b.diff(c)
		return err
	})
	return changes, err
}

func (b *Box) diff(c *container.Container) ([]core.Change, error) {
	d := differences{lower: b.below(), there: map[string]bool{}, removed: map[string]bool{}}
	err := b.readLayer(c, func(header *tar.Header, _ *layerFile) error { return d.add(header) })
	if err == nil {
		err = d.finish()
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(d.changes, func(a, b core.Change) int { return cmp.Compare(a.Path, b.Path) })
	return d.changes, nil
}

// differences compares the entries of the writable layer with the files below it.
type differences struct {
	lower          lower
	changes        []core.Change
	there, removed map[string]bool
	replaced       []string // directories that hide the entries below them
}

// add compares one entry.
func (d *differences) add(header *tar.Header) error {
	name := path.Join("/", header.Name) //nolint:gosec // it is only read
	if name == "/" {
		return nil
	}
	d.there[name] = true
	below, err := d.lower.Lstat(name)
	exists := err == nil
	// Files that this process cannot see are not visible in the sandbox, either.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) &&
		!errors.Is(err, unix.ENOTDIR) {
		return err
	}
	note := func(kind string) { d.changes = append(d.changes, core.Change{Path: name, Kind: kind}) }
	switch {
	//nolint:gosec // a name that is looked up, and nothing is extracted
	case removal(header) || header.Typeflag == tar.TypeLink && d.removed[path.Join("/", header.Linkname)]:
		// Marks may share an inode. The archive then has links to the first mark.
		d.removed[name] = true
		if exists {
			note("deleted")
		}
	case !exists:
		note("added")
	case header.Typeflag == tar.TypeDir && below.IsDir():
		if header.PAXRecords[opaque] == "y" {
			d.replaced = append(d.replaced, name)
		}
		if permissions(header.FileInfo()) != permissions(below) {
			note("changed")
		}
	default:
		note("changed")
	}
	return nil
}

// finish adds the files that a replaced directory hides.
func (d *differences) finish() error {
	for _, dir := range d.replaced {
		entries, err := d.lower.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		for _, e := range entries {
			if name := path.Join(dir, e.Name()); !d.there[name] {
				d.changes = append(d.changes, core.Change{Path: name, Kind: "deleted"})
			}
		}
	}
	return nil
}

// permissions are the bits that chmod(2) changes.
func permissions(info fs.FileInfo) fs.FileMode {
	return info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}

// removal reports whether an entry of the layer marks a removed file.
func removal(header *tar.Header) bool {
	return header.Typeflag == tar.TypeChar && header.Devmajor == 0 && header.Devminor == 0
}
