package transfer

import (
	"archive/tar"
	"bufio"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"github.com/seed-0724f904/sb/core"
)

const (
	ignoreFile = ".gitignore"
	gitName    = ".git"
	// maxIgnore bounds the .gitignore files of a tree together, in bytes.
	maxIgnore = 4 << 20
)

// ignore decides which files of a tree are skipped.
type ignore struct {
	// git skips every .git.
	git      bool
	patterns []gitignore.Pattern
	matcher  gitignore.Matcher
}

func newIgnore(exclude []string, git bool) *ignore {
	i := &ignore{git: git}
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
	f, err := tree.Open(path.Join(dir, ignoreFile))
	if err != nil {
		return nil //nolint:nilerr // most directories have none
	}
	defer func() { _ = f.Close() }()
	return i.addLines(f, dir)
}

// addLines adds the patterns of the .gitignore file of a directory.
func (i *ignore) addLines(r io.Reader, dir string) error {
	var domain []string
	if dir != "." {
		domain = strings.Split(dir, "/")
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		i.add(lines.Text(), domain)
	}
	return lines.Err()
}

// match reports whether a path in the tree, slash separated, is skipped.
func (i *ignore) match(name string, directory bool) bool {
	if name == "." {
		return false
	}
	return i.git && path.Base(name) == gitName || i.matcher != nil && i.matcher.Match(strings.Split(name, "/"), directory)
}

// excluded reports whether a path or a directory above it is skipped.
func (i *ignore) excluded(name string, directory bool) bool {
	if i.match(name, directory) {
		return true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if i.match(dir, true) {
			return true
		}
	}
	return false
}

// ignoredInside returns the skipped files of a tree in a sandbox. It reads the .gitignore files first, since an archive
// may have them after the files that they name.
func (c *copier) ignoredInside(name string) (ignored *ignore, err error) {
	ignored = newIgnore(c.Exclude, c.GitIgnore)
	if !c.GitIgnore {
		return ignored, nil
	}
	archive, err := c.Export(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	type file struct{ dir, text string }
	var files []file
	left := int64(maxIgnore)
	err = c.entries(bufio.NewReaderSize(archive, copyBuffer), func(r *tar.Reader, header *tar.Header) error {
		if header.Typeflag != tar.TypeReg || path.Base(header.Name) != ignoreFile {
			return nil
		}
		if left -= header.Size; left < 0 {
			return core.Errorf(
				core.KindExhausted, "copy", header.Name, "the %s files have more than %s", ignoreFile, core.Bytes(maxIgnore),
			)
		}
		text, err := io.ReadAll(r)
		files = append(files, file{path.Dir(header.Name), string(text)})
		return err
	})
	if err != nil {
		return nil, err
	}
	// Deeper .gitignore files have precedence, and the matcher evaluates patterns from the end.
	slices.SortStableFunc(files, func(a, b file) int { return cmp.Compare(depth(a.dir), depth(b.dir)) })
	for _, f := range files {
		if err := ignored.addLines(strings.NewReader(f.text), f.dir); err != nil {
			return nil, core.Wrap("copy", path.Join(f.dir, ignoreFile), err)
		}
	}
	return ignored, nil
}

func depth(dir string) int {
	if dir == "." {
		return 0
	}
	return 1 + strings.Count(dir, "/")
}
