package transfer

import (
	"archive/tar"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// leadsOutside says whether a symbolic link at name, in a tree, leads out of the tree. A ".." after a name goes up from
// wherever that name leads, which may be another link, so such a link counts as one that does.
func leadsOutside(name, target string) bool {
	joined := path.Join(path.Dir(name), target)
	return path.IsAbs(target) || joined == ".." || strings.HasPrefix(joined, "../") || upAfterName(target)
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

// check refuses an entry that is made through a link, for then it lies elsewhere than its name says.
func (l links) check(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if l[dir] {
			return core.Errorf(core.KindUsage, "copy", name, "the sandbox sent a path that goes through the link %s", dir)
		}
	}
	return nil
}

// maxLinks is how many links lead to one file at most, as for the kernel (path_resolution(7)).
const maxLinks = 40

// followed returns what a path in the sandbox that is copied from leads to over symbolic links.
func (c *copier) followed(name string, info core.FileInfo) (string, core.FileInfo, error) {
	from := name
	for range maxLinks {
		if info.Mode&fs.ModeSymlink == 0 {
			return name, info, nil
		}
		if !path.IsAbs(info.Link) {
			name = path.Join(path.Dir(name), info.Link)
		} else {
			name = path.Clean(info.Link)
		}
		var err error
		if info, err = c.Stat(c.ctx, c.From.Sandbox, name); err != nil {
			return name, info, err
		}
	}
	return name, info, core.Errorf(core.KindUsage, "copy", from, "too many links lead to one another")
}

// heirs has the files that are left out and whose content is copied all the same, since they have another name: the
// first of those, by theirs.
type heirs map[string]string

// contentOf is an entry's content. A hard link to a file that is left out, which the archive has the content of,
// becomes a file with that content, or a link to the one that did. from is the tree's path in the sandbox; the header's
// names are paths in the tree.
func (c *copier) contentOf(
	r io.Reader, header *tar.Header, from string, leftOut func(string) bool, taken heirs,
) (io.ReadCloser, error) {
	if header.Typeflag != tar.TypeLink || !leftOut(header.Linkname) {
		return io.NopCloser(r), nil
	}
	if heir, ok := taken[header.Linkname]; ok {
		header.Linkname = heir
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
	taken[header.Linkname] = header.Name
	header.Typeflag, header.Linkname, header.Size = tar.TypeReg, "", info.Size
	return content, nil
}
