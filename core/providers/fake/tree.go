package fake

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxLinks bounds the symbolic links in one path.
const maxLinks = 40

// node is a file, a directory or a symbolic link. A file's data is never changed in place: a write makes a new slice or
// grows this one, so readers keep the content that they opened.
type node struct {
	mode     fs.FileMode
	data     []byte
	link     string
	children map[string]*node
	modTime  time.Time
	uid, gid int
}

func (n *node) size() int64 {
	if n.link != "" {
		return int64(len(n.link))
	}
	return int64(len(n.data))
}

// tree is a filesystem. Paths are absolute and clean. Its methods are safe for concurrent use and return *fs.PathError
// with a kernel's error number.
type tree struct {
	mu    sync.Mutex
	root  *node
	now   func() time.Time
	used  int64
	limit int64 // 0 is no limit
}

func newTree(limit int64, now func() time.Time) *tree {
	return &tree{
		root: &node{mode: fs.ModeDir | 0o755, children: map[string]*node{}, modTime: now()}, now: now, limit: limit,
	}
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// find walks to a path and returns its directory, its last element and the node there, or nil. With follow, it also
// follows a link at the end.
func (t *tree) find(name string, follow bool) (dir *node, base string, n *node, err error) {
	links := 0
	rest := strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	stack := []*node{t.root}
	for len(rest) > 0 {
		dir = stack[len(stack)-1]
		base, rest = rest[0], rest[1:]
		switch base {
		case "", ".":
			continue
		case "..":
			stack = stack[:max(len(stack)-1, 1)]
			continue
		}
		if dir.children == nil {
			return nil, "", nil, syscall.ENOTDIR
		}
		n = dir.children[base]
		if n == nil {
			if len(rest) > 0 {
				return nil, "", nil, syscall.ENOENT
			}
			return dir, base, nil, nil
		}
		if n.link != "" && (len(rest) > 0 || follow) {
			if links++; links > maxLinks {
				return nil, "", nil, syscall.ELOOP
			}
			if path.IsAbs(n.link) {
				stack = stack[:1]
			}
			rest = append(strings.Split(n.link, "/"), rest...)
			continue
		}
		if len(rest) == 0 {
			return dir, base, n, nil
		}
		stack = append(stack, n)
	}
	return nil, "", stack[len(stack)-1], nil
}

// get returns the node at a path.
func (t *tree) get(op, name string, follow bool) (*node, error) {
	_, _, n, err := t.find(name, follow)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return n, nil
}

// stat returns a copy of the node at a path.
func (t *tree) stat(name string, follow bool) (node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.get("stat", name, follow)
	if err != nil {
		return node{}, err
	}
	return *n, nil
}

// list returns the names in a directory, sorted.
func (t *tree) list(name string) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.get("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if n.children == nil {
		return nil, pathError("readdir", name, syscall.ENOTDIR)
	}
	return slices.Sorted(maps.Keys(n.children)), nil
}

// read returns a regular file's content, which must not be changed.
func (t *tree) read(name string) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.get("open", name, true)
	if err != nil {
		return nil, err
	}
	if n.children != nil {
		return nil, pathError("read", name, syscall.EISDIR)
	}
	return n.data, nil
}

// replace replaces a file's data, or creates the file. mode 0 keeps a file's mode, or means 0644 for a new file.
func (t *tree) replace(name string, data []byte, mode fs.FileMode, uid int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.file(name, mode, uid)
	if err != nil {
		return err
	}
	grown := int64(len(data)) - int64(len(n.data))
	if t.limit > 0 && grown > 0 && t.used+grown > t.limit {
		return pathError("write", name, syscall.ENOSPC)
	}
	t.used += grown
	n.data, n.modTime = data, t.now()
	return nil
}

// appendTo appends data to a file and returns the number of bytes that fit.
func (t *tree) appendTo(name string, data []byte, mode fs.FileMode, uid int) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.file(name, mode, uid)
	if err != nil {
		return 0, err
	}
	var full error
	if t.limit > 0 && t.used+int64(len(data)) > t.limit {
		data, full = data[:max(t.limit-t.used, 0)], pathError("write", name, syscall.ENOSPC)
	}
	t.used += int64(len(data))
	n.data, n.modTime = append(n.data, data...), t.now()
	return len(data), full
}

// file returns the regular file at a path, and creates it if needed.
func (t *tree) file(name string, mode fs.FileMode, uid int) (*node, error) {
	dir, base, n, err := t.find(name, true)
	switch {
	case err != nil:
		return nil, pathError("open", name, err)
	case n == nil && dir == nil:
		return nil, pathError("open", name, syscall.ENOENT)
	case n == nil:
		// A dangling link creates its target: find has returned the target's directory.
		n = &node{mode: 0o644, uid: uid, gid: uid, modTime: t.now()}
		dir.children[base] = n
		dir.modTime = t.now()
	case n.children != nil:
		return nil, pathError("open", name, syscall.EISDIR)
	}
	if mode != 0 {
		n.mode = mode.Perm()
	}
	return n, nil
}

// add adds a new node at a free path.
func (t *tree) add(op, name string, n *node) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	dir, base, old, err := t.find(name, false)
	switch {
	case err != nil:
		return pathError(op, name, err)
	case old != nil:
		return pathError(op, name, syscall.EEXIST)
	}
	n.modTime = t.now()
	dir.children[base] = n
	dir.modTime = n.modTime
	return nil
}

// mkdir makes a directory and, with parents, its missing parents.
func (t *tree) mkdir(name string, parents bool, uid int) error {
	if parents && name != "/" {
		if err := t.mkdir(path.Dir(name), true, uid); err != nil {
			return err
		}
	}
	err := t.add("mkdir", name, &node{mode: fs.ModeDir | 0o755, children: map[string]*node{}, uid: uid, gid: uid})
	if err != nil && parents {
		if n, statErr := t.stat(name, true); statErr == nil && n.children != nil {
			return nil
		}
	}
	return err
}

// symlink makes a link.
func (t *tree) symlink(target, name string, uid int) error {
	return t.add("symlink", name, &node{mode: fs.ModeSymlink | 0o777, link: target, uid: uid, gid: uid})
}

// chmod changes a file's permission bits.
func (t *tree) chmod(name string, mode fs.FileMode) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.get("chmod", name, true)
	if err == nil {
		n.mode = n.mode&^fs.ModePerm | mode.Perm()
	}
	return err
}

// touch sets a file's time.
func (t *tree) touch(name string, when time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.get("touch", name, true)
	if err == nil {
		n.modTime = when
	}
	return err
}

// remove removes a file, an empty directory or, with recursive, the whole tree at a path.
func (t *tree) remove(name string, recursive bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	dir, base, n, err := t.find(name, false)
	switch {
	case err != nil:
		return pathError("remove", name, err)
	case n == nil:
		return pathError("remove", name, syscall.ENOENT)
	case dir == nil:
		return pathError("remove", name, syscall.EBUSY)
	case len(n.children) > 0 && !recursive:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	t.used -= n.total()
	delete(dir.children, base)
	dir.modTime = t.now()
	return nil
}

// total returns the bytes that a node and its children take from the limit.
func (n *node) total() int64 {
	sum := int64(len(n.data))
	for _, child := range n.children {
		sum += child.total()
	}
	return sum
}

// real returns a path with all its links resolved.
func (t *tree) real(name string) (string, error) {
	resolved := "/"
	rest := strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(resolved, rest[0])
		n, err := t.stat(next, false)
		if err != nil {
			return "", err
		}
		rest = rest[1:]
		if n.link == "" {
			resolved = next
			continue
		}
		if links++; links > maxLinks {
			return "", pathError("resolve", name, syscall.ELOOP)
		}
		if path.IsAbs(n.link) {
			resolved = "/"
		}
		rest = append(strings.Split(n.link, "/"), rest...)
	}
	return resolved, nil
}

// clone returns an independent copy. Both share data until one of them writes.
func (t *tree) clone() *tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &tree{root: t.root.clone(), now: t.now, used: t.used, limit: t.limit}
}

func (n *node) clone() *node {
	copied := *n
	copied.data = slices.Clip(n.data) // an append there does not change this data
	if n.children != nil {
		copied.children = make(map[string]*node, len(n.children))
		for name, child := range n.children {
			copied.children[name] = child.clone()
		}
	}
	return &copied
}
