package transfer

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// checkLink refuses a symbolic link at name, in a tree, whose target is outside of the tree.
func checkLink(name, target string) error {
	joined := path.Join(path.Dir(name), target)
	if target == "" || path.IsAbs(target) || filepath.IsAbs(target) || joined == ".." || strings.HasPrefix(joined, "../") {
		return core.Errorf(core.KindUsage, "copy", name, "the link points outside of what is copied: %s -> %s", name, target).
			WithHint("leave it out with --exclude %q", "/"+name)
	}
	return nil
}

// localName turns the name of an archive's entry into a path in the tree, without its first
// element, and refuses one that leads out. The tree itself is ".".
func localName(entry string) (string, error) {
	name := path.Clean(strings.TrimSuffix(entry, "/"))
	if path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
		return "", core.Errorf(core.KindUsage, "copy", entry, "the sandbox sent a path that leads outside")
	}
	_, rest, nested := strings.Cut(name, "/")
	if !nested {
		return ".", nil
	}
	return rest, nil
}
