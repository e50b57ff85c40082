package transfer

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"golang.org/x/sync/errgroup"

	"github.com/seed-0724f904/sb/core"
)

// Tree is a file or directory of a sandbox, and the part of it that Find and Search look at.
type Tree struct {
	Sandbox string
	// Path is absolute and clean.
	Path string
	// Globs select files by patterns in the syntax of .gitignore, relative to Path. A leading "!" excludes files, and the
	// last pattern that matches decides. Without a pattern that selects, all files are selected.
	Globs []string
	// All includes hidden files, .git, and those that the .gitignore files below Path name.
	All bool
}

// The bounds of Find and Search. A sandbox can pretend to have any number of files.
const (
	// maxFindDirectories bounds the directories that Find lists.
	maxFindDirectories = 10_000
	// findParallel is how many directories Find lists at the same time.
	findParallel = 8
)

// Find calls found for the files and directories of a tree that its globs select, ordered by depth and then by name. It
// follows no link. It ends when found returns false. complete is false if it ended early, or left out directories
// because there are too many of them.
func Find(
	ctx context.Context, files Files, tree Tree, found func(core.FileInfo) (more bool),
) (complete bool, err error) {
	globs, left := newGlobs(tree.Globs), maxFindDirectories
	skip := newSkipped(tree)
	complete = true
	for level := []string{"."}; len(level) > 0; {
		if len(level) > left {
			level, complete = level[:left], false
		}
		left -= len(level)
		listings, err := listAll(ctx, files, tree, skip, level)
		if err != nil {
			return false, err
		}
		level = nil
		for _, listing := range listings {
			for _, info := range listing {
				name, directory := relative(tree.Path, info.Path), info.Mode.IsDir()
				if skip.skips(name, directory) {
					continue
				}
				if globs.selects(name, directory) && !found(info) {
					return false, nil
				}
				if directory {
					level = append(level, name)
				}
			}
		}
	}
	return complete, nil
}

// listAll lists the directories of one level, in their order, and reads their .gitignore files. A directory that cannot
// be read, except the tree itself, has no entries.
func listAll(
	ctx context.Context, files Files, tree Tree, skip *skipped, level []string,
) (listings [][]core.FileInfo, err error) {
	listings = make([][]core.FileInfo, len(level))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(findParallel)
	for i, dir := range level {
		group.Go(func() error {
			infos, err := files.ReadDir(ctx, tree.Sandbox, path.Join(tree.Path, dir))
			if err != nil && (dir == "." || ctx.Err() != nil) {
				return err
			}
			slices.SortFunc(infos, func(a, b core.FileInfo) int { return strings.Compare(a.Path, b.Path) })
			listings[i] = infos
			return skip.read(ctx, files, tree, dir, infos)
		})
	}
	return listings, group.Wait()
}

// skipped decides which files of a tree are skipped. It is safe for concurrent use.
type skipped struct {
	tree Tree

	mu      sync.Mutex
	ignored *ignore
	left    int64 // bytes of .gitignore files that are still read
}

func newSkipped(tree Tree) *skipped {
	return &skipped{tree: tree, ignored: newIgnore(nil, false), left: maxIgnore}
}

// skips reports whether a path relative to the tree is skipped. Directories above it are not looked at.
func (s *skipped) skips(name string, directory bool) bool {
	if s.tree.Path == "/" && slices.Contains([]string{"proc", "sys", "dev"}, name) {
		return true // the kernel's, and without end
	}
	if s.tree.All {
		return false
	}
	if strings.HasPrefix(path.Base(name), ".") {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ignored.match(name, directory)
}

// skipsPath is skips for a path and the directories above it.
func (s *skipped) skipsPath(name string, directory bool) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if s.skips(dir, true) {
			return true
		}
	}
	return s.skips(name, directory)
}

// read adds the .gitignore file of a directory, if its entries have one. A file that cannot be read is like none.
func (s *skipped) read(ctx context.Context, files Files, tree Tree, dir string, infos []core.FileInfo) error {
	at := slices.IndexFunc(infos, func(info core.FileInfo) bool {
		return path.Base(info.Path) == ignoreFile && info.Mode.IsRegular()
	})
	if tree.All || at < 0 {
		return nil
	}
	content, err := files.ReadFile(ctx, tree.Sandbox, infos[at].Path)
	if err != nil {
		return ctx.Err()
	}
	defer func() { _ = content.Close() }()
	s.add(content, dir)
	return ctx.Err()
}

// add adds the patterns of the .gitignore file of a directory, as far as they can be read.
func (s *skipped) add(content io.Reader, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bounded := io.LimitedReader{R: content, N: s.left}
	_ = s.ignored.addLines(&bounded, dir)
	s.left = bounded.N
}

// globs select files.
type globs struct {
	patterns []gitignore.Pattern
	// open selects the files that no pattern matches.
	open bool
}

func newGlobs(patterns []string) globs {
	g := globs{open: true}
	for _, pattern := range patterns {
		if pattern == "" {
			continue
		}
		g.open = g.open && strings.HasPrefix(pattern, "!")
		g.patterns = append(g.patterns, gitignore.ParsePattern(pattern, nil))
	}
	return g
}

// selects reports whether a path relative to the tree is selected.
func (g globs) selects(name string, directory bool) bool {
	for _, pattern := range slices.Backward(g.patterns) {
		switch pattern.Match(strings.Split(name, "/"), directory) {
		case gitignore.Exclude: // for .gitignore, a match excludes
			return true
		case gitignore.Include:
			return false
		case gitignore.NoMatch:
		}
	}
	return g.open
}
