package erofs

import (
	"io/fs"
	"strings"
)

// maxLinks bounds the symbolic links in the resolution of a path, as in the kernel.
const maxLinks = 40

// Canonical returns the path after all symbolic links in it, without a leading slash. Missing parts stay as they are.
// It returns fs.ErrNotExist if a part is a file, or if there are too many links.
func Canonical(root *Node, path string) (string, error) {
	at, names := []*Node{root}, []string(nil)
	parts := strings.Split(path, "/")
	for links := 0; len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			at, names = at[:max(1, len(at)-1)], names[:max(0, len(names)-1)]
			continue
		}
		var next *Node
		if here := at[len(at)-1]; here != nil {
			if !here.IsDir() {
				return "", fs.ErrNotExist
			}
			next = here.Child(part)
		}
		if next != nil {
			if target, isLink := next.Target(); isLink {
				if links++; links > maxLinks {
					return "", fs.ErrNotExist
				}
				if strings.HasPrefix(target, "/") {
					at, names = at[:1], nil
				}
				parts = append(strings.Split(target, "/"), parts...)
				continue
			}
		}
		at, names = append(at, next), append(names, part)
	}
	return strings.Join(names, "/"), nil
}

// Find returns the file at a path below the root directory root, or fs.ErrNotExist. It follows symbolic links as a
// program inside would, so that none leads out of root. With follow it also follows one at the end of the path.
func Find(root *Node, path string, follow bool) (*Node, error) {
	at := []*Node{root}
	parts := strings.Split(path, "/")
	for links := 0; len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		here := at[len(at)-1]
		if part == "" || part == "." {
			continue
		}
		if !here.IsDir() {
			return nil, fs.ErrNotExist
		}
		if part == ".." {
			at = at[:max(1, len(at)-1)]
			continue
		}
		next := here.Child(part)
		if next == nil {
			return nil, fs.ErrNotExist
		}
		target, isLink := next.Target()
		if !isLink || !follow && len(parts) == 0 {
			at = append(at, next)
			continue
		}
		if links++; links > maxLinks {
			return nil, fs.ErrNotExist
		}
		if strings.HasPrefix(target, "/") {
			at = at[:1]
		}
		parts = append(strings.Split(target, "/"), parts...)
	}
	return at[len(at)-1], nil
}
