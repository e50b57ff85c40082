package layer

import (
	"archive/tar"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

// note records whether an entry gives its file extended attributes. Labels of SELinux belong to the machine that wrote
// the layer, and overlay's attributes to its file system.
func (t *Tree) note(n *erofs.Node, header *tar.Header) {
	delete(t.extended, n)
	for key := range header.PAXRecords {
		_, name, ok := strings.Cut(key, ".xattr.") // SCHILY's, or LIBARCHIVE's
		if ok && name != "security.selinux" && !strings.HasPrefix(name, "trusted.overlay.") {
			t.extended[n] = true
		}
	}
}

// Extended returns the number of files whose extended attributes the tree left out, and the first names of them in
// order, most at most.
func (t *Tree) Extended(most int) (count int, first []string) {
	left := maps.Clone(t.extended)
	var visit func(name string, n *erofs.Node)
	visit = func(name string, n *erofs.Node) {
		if left[n] {
			delete(left, n) // it may have other names
			if count++; count <= most {
				first = append(first, "/"+strings.TrimPrefix(name, "/"))
			}
		}
		if !n.IsDir() || len(left) == 0 {
			return
		}
		children := maps.Collect(n.Children)
		for _, child := range slices.Sorted(maps.Keys(children)) {
			visit(name+"/"+child, children[child])
		}
	}
	visit("", t.out.Root)
	return count, first
}
