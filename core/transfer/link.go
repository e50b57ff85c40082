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

// leadsOutside reports whether a symbolic link at name, in a tree, leads out of the tree. A ".." after a name goes up
// from the target of that name, which may be another link. So such a link counts as leading out.
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

// localName converts the name of an archive's entry to a path in the tree, without the first element. It refuses a name
// that leads out. The tree itself is ".".
func localName(entry string) (string, error) {
	_, rest, _ := strings.Cut(entry, "/")
	if path.IsAbs(entry) || strings.ContainsRune(entry, 0) || slices.Contains(strings.Split(entry, "/"), "..") {
		return "", core.Errorf(core.KindUsage, "copy", entry, "the sandbox sent a path that leads outside")
	}
	// The first element is cut before path.Clean: for the root directory, it is ".".
	return path.Clean(strings.TrimLeft(rest, "/")), nil
}

// links has the symbolic links of a tree that is being copied.
type links map[string]bool

// check refuses an entry below a link, since it would be created outside its named directory.
func (l links) check(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if l[dir] {
			return core.Errorf(core.KindUsage, "copy", name, "the sandbox sent a path that goes through the link %s", dir)
		}
	}
	return nil
}

// maxLinks bounds the links to one file, as in the kernel (path_resolution(7)).
const maxLinks = 40

// followed resolves the symbolic links of a path in the source sandbox.
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
	return name, info, core.Errorf(core.KindUsage, "copy", from, "too many links refer to each other")
}

// heirs maps a skipped file to its heir: the first copied name of the same file, which gets the content.
type heirs map[string]string

// contentOf returns an entry's content. The archive may have the content under the name of a skipped file. A hard link
// to that file becomes a file with the content, or a link to its heir. from is the tree's path in the sandbox; the
// header's names are paths in the tree.
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
