package transfer

import (
	"archive/tar"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// checkLink refuses a symbolic link at name, in a tree, whose target is outside of the tree. A
// ".." after a name goes up from wherever that name leads, which may be another link, so only
// leading ones are taken.
func checkLink(name, target string) error {
	joined := path.Join(path.Dir(name), target)
	if target == "" || path.IsAbs(target) || filepath.IsAbs(target) || joined == ".." || strings.HasPrefix(joined, "../") || upAfterName(target) {
		return core.Errorf(core.KindUsage, "copy", name, "the link points outside of what is copied: %s -> %s", name, target).
			WithHint("leave it out with --exclude %q", "/"+name)
	}
	return nil
}

func upAfterName(target string) bool {
	named := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && named {
			return true
		}
		named = named || part != "" && part != "." && part != ".."
	}
	return false
}

// localName turns the name of an archive's entry into a path in the tree, without its first
// element, and refuses one that leads out. The tree itself is ".".
func localName(entry string) (string, error) {
	_, rest, _ := strings.Cut(entry, "/")
	if path.IsAbs(entry) || strings.ContainsRune(entry, 0) || slices.Contains(strings.Split(entry, "/"), "..") {
		return "", core.Errorf(core.KindUsage, "copy", entry, "the sandbox sent a path that leads outside")
	}
	// The first element is cut before the name is cleaned: that of the root directory is ".".
	return path.Clean(strings.TrimLeft(rest, "/")), nil
}

// links has the symbolic links of a tree that is being copied.
type links map[string]bool

// check refuses an entry that is made through a link, for then it lies elsewhere than its name
// says, and what its own target means is not known.
func (l links) check(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if l[dir] {
			return core.Errorf(core.KindUsage, "copy", name, "the sandbox sent a path that goes through the link %s", dir)
		}
	}
	return nil
}

// checkHard is check for the other name of a hard link, which must not be a symbolic
// link either: its target would mean something else under the new name.
func (l links) checkHard(name, old string) error {
	if l[old] {
		return core.Errorf(core.KindUsage, "copy", name, "the sandbox sent a hard link to the link %s", old)
	}
	return l.check(old)
}

// maxLinks is how many links lead to one file at most, as for the kernel (path_resolution(7)).
const maxLinks = 40

// followed returns what a symbolic link in the sandbox that is copied from leads to; what is none leads to itself.
func (c *copier) followed(info core.FileInfo) (core.FileInfo, error) {
	from := info.Path
	for range maxLinks {
		if info.Mode&fs.ModeSymlink == 0 {
			return info, nil
		}
		next := info.Link
		if !path.IsAbs(next) {
			next = path.Join(path.Dir(info.Path), next)
		}
		var err error
		if info, err = c.Stat(c.ctx, c.From.Sandbox, next); err != nil {
			return info, err
		}
	}
	return info, core.Errorf(core.KindUsage, "copy", from, "too many links lead to one another")
}

// heirs has the files that are left out and whose content is copied all the same, since they have another name: the first
// of those, by theirs.
type heirs map[string]string

// contentOf is an entry's content. A hard link to a file that is left out, which the archive has the content of, becomes a file with
// that content, or a link to the one that did. from is the tree's path in the sandbox; the header's name is a path in the tree.
func (c *copier) contentOf(r io.Reader, header *tar.Header, from string, ignored *ignore, taken heirs) (io.ReadCloser, error) {
	if header.Typeflag != tar.TypeLink {
		return io.NopCloser(r), nil
	}
	old, err := localName(header.Linkname)
	if err != nil || !excluded(ignored, old, false) {
		return io.NopCloser(r), err
	}
	if heir, ok := taken[old]; ok {
		header.Linkname = "./" + heir
		return io.NopCloser(r), nil
	}
	name := path.Join(from, header.Name) //nolint:gosec // a path in the sandbox that sent it
	info, err := c.Stat(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return nil, err
	}
	content, err := c.ReadFile(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return nil, err
	}
	taken[old] = header.Name
	header.Typeflag, header.Linkname, header.Size = tar.TypeReg, "", info.Size
	return content, nil
}
