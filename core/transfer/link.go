package transfer

import (
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
