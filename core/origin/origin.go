package origin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Origin is a directory of this machine, and its copy in a sandbox.
type Origin struct {
	// Sandbox is the id of the sandbox, and Provider its provider. Store.Write sets both.
	Provider string `json:"provider"`
	Sandbox  string `json:"sandbox"`
	// Source is an absolute path on this machine, without links.
	Source string `json:"source"`
	// Target is an absolute path in the sandbox.
	Target string `json:"target"`
	// CopyOnWrite means that the sandbox sees Source itself. Otherwise it has a copy.
	CopyOnWrite bool `json:"copy_on_write,omitempty"`
	// Selected means that the sandbox has a copy of Files only, and not of all of Source.
	Selected bool      `json:"selected,omitempty"`
	Recorded time.Time `json:"recorded"`
	// Exclude and GitIgnore are the rules by which files of Source were left out.
	Exclude   []string `json:"exclude,omitempty"`
	GitIgnore bool     `json:"git_ignore,omitempty"`
	// Files are the files of Source when the sandbox got them, by their slash-separated path in it. nil means that they
	// were not recorded.
	Files map[string]File `json:"files"`
}

// Has reports whether a path in Source, slash-separated, can belong to the origin.
func (o Origin) Has(name string) bool {
	if !o.Selected || name == "." {
		return true
	}
	_, known := o.Files[name]
	return known
}

// File is the state of one file.
type File struct {
	// Mode has the type and the permissions, as fs.FileMode.
	Mode fs.FileMode `json:"mode"`
	Size int64       `json:"size,omitempty"`
	// Modified and Changed are the times of the last change of the content and of the inode, in nanoseconds since 1970.
	// Changed and Inode are 0 where the system does not have them.
	Modified int64  `json:"modified,omitempty"`
	Changed  int64  `json:"changed,omitempty"`
	Inode    uint64 `json:"inode,omitempty"`
	// Link is the target of a symbolic link.
	Link string `json:"link,omitempty"`
	// Sum is the SHA-256 of the content in hexadecimal; "" if the content was not read.
	Sum string `json:"sum,omitempty"`
}

// MaxFiles is the highest number of files in a record.
const MaxFiles = 1_000_000

// ErrTooMany means that a directory has more than MaxFiles files.
var ErrTooMany = errors.New("the directory has too many files")

// FileOf returns the state of a file on this machine, without Link and Sum.
func FileOf(info fs.FileInfo) File {
	f := File{Mode: info.Mode(), Modified: info.ModTime().UnixNano()}
	if info.Mode().IsRegular() {
		f.Size = info.Size()
	}
	f.Changed, f.Inode = inode(info)
	return f
}

// Same reports whether the file is unchanged since f, as far as its metadata tells. A directory is the same as long as
// its permissions are.
func (f File) Same(now File) bool {
	if f.Mode != now.Mode || f.Link != now.Link {
		return false
	}
	if !f.Mode.IsRegular() {
		return true
	}
	return f.Size == now.Size && f.Modified == now.Modified && f.Changed == now.Changed && f.Inode == now.Inode
}

// Survey returns the state of all files below a directory, except for their content. It does not follow links. Files
// that disappear meanwhile, and directories that cannot be read, are left out.
func Survey(ctx context.Context, dir string) (_ map[string]File, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	files := map[string]File{}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(files) >= MaxFiles {
			return fmt.Errorf("%w: more than %d", ErrTooMany, MaxFiles)
		}
		file := FileOf(info)
		if info.Mode()&fs.ModeSymlink != 0 {
			if file.Link, err = root.Readlink(name); err != nil {
				return nil //nolint:nilerr // it was replaced; it counts as one that was not there
			}
		}
		files[name] = file
		return nil
	})
	return files, err
}
