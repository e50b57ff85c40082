package transfer

import (
	"bufio"
	"io/fs"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// ignore decides what is left out of a tree.
type ignore struct {
	patterns []gitignore.Pattern
	matcher  gitignore.Matcher
}

func newIgnore(exclude []string) *ignore {
	i := &ignore{}
	for _, pattern := range exclude {
		i.add(pattern, nil)
	}
	return i
}

func (i *ignore) add(pattern string, domain []string) {
	if pattern = strings.TrimRight(pattern, "\r\n"); strings.TrimSpace(pattern) == "" || strings.HasPrefix(pattern, "#") {
		return
	}
	i.patterns = append(i.patterns, gitignore.ParsePattern(pattern, domain))
	i.matcher = gitignore.NewMatcher(i.patterns)
}

// addFile adds the patterns of the .gitignore file in a directory of the tree.
func (i *ignore) addFile(tree fs.FS, dir string) error {
	f, err := tree.Open(path.Join(dir, ".gitignore"))
	if err != nil {
		return nil //nolint:nilerr // most directories have none
	}
	defer func() { _ = f.Close() }()
	var domain []string
	if dir != "." {
		domain = strings.Split(dir, "/")
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		i.add(lines.Text(), domain)
	}
	return lines.Err()
}

// match says whether a path in the tree, slash separated, is left out.
func (i *ignore) match(name string, directory bool) bool {
	return i.matcher != nil && name != "." && i.matcher.Match(strings.Split(name, "/"), directory)
}
