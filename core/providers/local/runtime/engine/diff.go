//go:build linux

package engine

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	written := make(chan error, 1)
	go func() {
		err := c.TarRootfsUpperLayer(in)
		_ = in.Close()
		written <- err
	}()
	changes, err := b.changes(tar.NewReader(out))
	_ = out.Close() // ends the writer, also after a partial read
	writeErr := <-written
	if err != nil {
		return nil, errors.Join(err, writeErr)
	}
	if writeErr != nil {
		return nil, fmt.Errorf("reading the writable layer: %w", writeErr)
	}
	slices.SortFunc(changes, func(a, b core.Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}

// changes compares an archive of the layer with the files below it.
func (b *Box) changes(layer *tar.Reader) ([]core.Change, error) {
	var changes []core.Change
	lower := b.below()
	there, removed := map[string]bool{}, map[string]bool{}
	var replaced []string
	for {
		header, err := layer.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the writable layer: %w", err)
		}
		name := path.Join("/", header.Name) //nolint:gosec // it is looked at, nothing is written there
		if name == "/" {
			continue
		}
		there[name] = true
		below, err := lower.Lstat(name)
		exists := err == nil
		// Files that this process cannot see are not visible in the sandbox, either.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) &&
			!errors.Is(err, unix.ENOTDIR) {
			return nil, err
		}
		switch {
		//nolint:gosec // a name that is looked up, and nothing is extracted
		case removal(header) || header.Typeflag == tar.TypeLink && removed[path.Join("/", header.Linkname)]:
			// Marks may share an inode. The archive then has links to the first mark.
			removed[name] = true
			if exists {
				changes = append(changes, core.Change{Path: name, Kind: "deleted"})
			}
		case !exists:
			changes = append(changes, core.Change{Path: name, Kind: "added"})
		case header.Typeflag == tar.TypeDir && below.IsDir():
			if header.PAXRecords[opaque] == "y" {
				replaced = append(replaced, name)
			}
			if permissions(header.FileInfo()) != permissions(below) {
				changes = append(changes, core.Change{Path: name, Kind: "changed"})
			}
		default:
			changes = append(changes, core.Change{Path: name, Kind: "changed"})
		}
	}
	for _, dir := range replaced {
		entries, err := lower.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		for _, e := range entries {
			if name := path.Join(dir, e.Name()); !there[name] {
				changes = append(changes, core.Change{Path: name, Kind: "deleted"})
			}
		}
	}
	return changes, nil
}

// permissions are the bits that chmod(2) changes.
func permissions(info fs.FileInfo) fs.FileMode {
	return info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}

// removal reports whether an entry of the layer marks a removed file.
func removal(header *tar.Header) bool {
	return header.Typeflag == tar.TypeChar && header.Devmajor == 0 && header.Devminor == 0
}
