package core

import (
	"io/fs"
	"path"
	"strings"
	"time"
)

// FileInfo describes a file inside a sandbox. Symbolic links are not followed.
type FileInfo struct {
	// Path is absolute.
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Mode has the type bits of fs.FileMode; its JSON is text as "ls -l" writes it.
	Mode    fs.FileMode `json:"-"`
	ModTime time.Time   `json:"mod_time"`
	UID     int         `json:"uid"`
	GID     int         `json:"gid"`
	// Link is a symbolic link's target.
	Link string `json:"link,omitempty"`
}

// MaxPath bounds a path and a symbolic link's target, in bytes: PATH_MAX of Linux.
const MaxPath = 4096

// fileModeBits are what FileInfo.Mode may have.
const fileModeBits = fs.ModeType | fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// CheckFile refuses a description that no file system gives, as a hostile sandbox may answer it: it must be of name, which
// is absolute and clean. The error is KindInternal.
func CheckFile(name string, info FileInfo) error {
	why := ""
	switch {
	case info.Path != name:
		why = "it describes another path"
	case info.Size < 0:
		why = "the size is negative"
	case info.Mode&^fileModeBits != 0:
		why = "the mode has unknown bits"
	case info.Link != "" && info.Mode&fs.ModeSymlink == 0:
		why = "only a symbolic link has a target"
	case len(info.Link) > MaxPath || strings.ContainsRune(info.Link, 0):
		why = "the target of the link is not a path"
	default:
		return nil
	}
	return Errorf(KindInternal, "stat", name, "the sandbox sent a damaged answer: %s", why)
}

// CheckListing is CheckFile for the entries of the directory dir: each lies directly in it. The sandbox chooses the last element of a
// path, and nothing else.
func CheckListing(dir string, infos []FileInfo) error {
	for _, info := range infos {
		name, inside := strings.CutPrefix(info.Path, strings.TrimSuffix(dir, "/")+"/")
		if !inside || !isElement(name) {
			return Errorf(KindInternal, "readdir", dir, "the sandbox sent a damaged answer: %q is no name of a file", name)
		}
		if err := CheckFile(path.Join(dir, name), info); err != nil {
			return err
		}
	}
	return nil
}

// isElement says whether name can be one element of a path.
func isElement(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= MaxPath && !strings.ContainsAny(name, "/\x00")
}

// WriteOptions says how FileSystem.WriteFile creates a file.
type WriteOptions struct {
	// Mode is the permission bits; 0 keeps those of a file that exists, else 0644.
	Mode fs.FileMode
	// Parents makes missing directories.
	Parents bool
	// Append adds to the file instead of replacing it; it is then not atomic.
	Append bool
}

// ImportOptions says how FileSystem.Import unpacks an archive.
type ImportOptions struct {
	// KeepOwner sets the archive's uid and gid; else files belong to the sandbox's user.
	KeepOwner bool
	// DirectoryModes gives directories that are there already the archive's mode, and with KeepOwner its owner; else they keep what they have.
	DirectoryModes bool
}
