package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// hostPlace is the target of a copy to this machine.
type hostPlace struct {
	name string
	// exists reports an existing directory.
	exists bool
	// special reports an existing target that is neither a file nor a directory.
	special bool
}

// hostTarget returns the target of a copy to this machine: base in an existing directory, or the path itself. Like cp,
// it follows a link that the user named. It does not follow a link at base, because a sandbox may have created it.
func hostTarget(to, base string, directory, content bool) (hostPlace, error) {
	info, err := os.Stat(to)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return hostPlace{}, err
	case err != nil && (strings.HasSuffix(to, "/") || strings.HasSuffix(to, string(filepath.Separator))) && !directory:
		return hostPlace{}, core.Errorf(core.KindNotFound, "copy", to, "there is no such directory")
	case err != nil:
		return hostPlace{name: filepath.Clean(to)}, nil
	case !info.IsDir() && directory:
		return hostPlace{}, core.Errorf(core.KindConflict, "copy", to, "it is a file, and a directory cannot replace it")
	case info.IsDir() && content:
		return hostPlace{name: to, exists: true}, nil
	case !info.IsDir() && !info.Mode().IsRegular():
		return hostPlace{name: to, special: true}, nil
	case !info.IsDir(): // a link's target is replaced, not the link: /dev/stdout is one
		to, err = filepath.EvalSymlinks(to)
		return hostPlace{name: to}, err
	}
	name := filepath.Join(to, base)
	info, err = os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hostPlace{name: name}, nil
	case err != nil:
		return hostPlace{}, err
	case info.IsDir() != directory:
		return hostPlace{}, notEachOther(name)
	case !info.IsDir() && !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return hostPlace{}, core.Errorf(core.KindConflict, "copy", name, "it is neither a file nor a directory").
			WithHint("name it as the target to write to it")
	}
	return hostPlace{name: name, exists: info.IsDir()}, nil
}

// checkGit refuses a target that is an existing .git, or lies in one, unless the request includes it.
func (c *copier) checkGit(target string) error {
	if c.IncludeGit {
		return nil
	}
	whole, err := filepath.Abs(target)
	if err != nil {
		return err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(whole)); err == nil {
		whole = filepath.Join(dir, filepath.Base(whole))
	}
	for dir := whole; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if !strings.EqualFold(filepath.Base(dir), gitName) {
			continue
		}
		if _, err := os.Lstat(dir); err == nil {
			return core.Errorf(
				core.KindConflict, "copy", target, "it is in a %s that exists, and Git runs programs that are named there", gitName,
			).
				WithHint("--include-git writes to it anyway")
		}
	}
	return nil
}

// keptGit returns a function that reports whether a name below dir is, or lies in, an existing .git there.
func keptGit(dir *os.Root, include bool) func(name string) bool {
	if include {
		return nil
	}
	there := map[string]bool{}
	return func(name string) bool {
		at := 0
		for part := range strings.SplitSeq(name, "/") {
			at += len(part)
			prefix := name[:at]
			at++
			if !strings.EqualFold(part, gitName) {
				continue
			}
			kept, known := there[prefix]
			if !known {
				_, err := dir.Lstat(prefix)
				kept = !errors.Is(err, fs.ErrNotExist)
				there[prefix] = kept
			}
			if kept {
				return true
			}
		}
		return false
	}
}
