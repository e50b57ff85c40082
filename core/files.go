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
	// Mode has the type bits of fs.FileMode; in JSON it is text in the format of "ls -l".
	Mode    fs.FileMode `json:"-"`
	ModTime time.Time   `json:"mod_time"`
	UID     int         `json:"uid"`
	GID     int         `json:"gid"`
	// Link is a symbolic link's target.
	Link string `json:"link,omitempty"`
}

// MaxPath is the highest length of a path and of a symbolic link's target, in bytes: PATH_MAX of Linux.
const MaxPath = 4096

// fileModeBits are the bits that FileInfo.Mode may have.
const fileModeBits = fs.ModeType | fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// CheckFile rejects a description that no filesystem produces: a hostile sandbox may send one. It must describe name,
// which is absolute and clean. The error is KindInternal.
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

// CheckListing is CheckFile for the entries of the directory dir. Each must lie directly in dir: the sandbox chooses
// only the last element of a path.
func CheckListing(dir string, infos []FileInfo) error {
	for _, info := range infos {
		name, inside := strings.CutPrefix(info.Path, strings.TrimSuffix(dir, "/")+"/")
		if !inside || !isElement(name) {
			return Errorf(KindInternal, "readdir", dir, "the sandbox sent a damaged answer: %q is not a file name", name)
		}
		if err := CheckFile(path.Join(dir, name), info); err != nil {
			return err
		}
	}
	return nil
}

// isElement reports whether name can be one element of a path.
func isElement(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= MaxPath && !strings.ContainsAny(name, "/\x00")
}

// WriteOptions are the options of FileSystem.WriteFile.
type WriteOptions struct {
	// Mode is the permission bits; 0 keeps those of an existing file and gives a new one 0644.
	Mode fs.FileMode
	// Parents creates missing directories.
	Parents bool
	// Append adds to the file instead of replacing it. Appending is not atomic.
	Append bool
}

// ImportOptions are the options of FileSystem.Import.
type ImportOptions struct {
	// KeepOwner applies the archive's uid and gid; without it files belong to the sandbox's user.
	KeepOwner bool
	// DirectoryModes applies the archive's mode, and with KeepOwner its owner, to existing directories. Without it they
	// stay unchanged.
	DirectoryModes bool
}

// ModeText is a mode as ls(1) prints it: "lrwxrwxrwx", "drwxrwxrwt". fs.FileMode prints other letters.
func ModeText(mode fs.FileMode) string {
	text := []byte("-" + mode.Perm().String()[1:])
	for _, kind := range []struct {
		bit    fs.FileMode
		letter byte
	}{
		{fs.ModeDir, 'd'},
		{fs.ModeSymlink, 'l'},
		{fs.ModeNamedPipe, 'p'},
		{fs.ModeSocket, 's'},
		{fs.ModeDevice, 'b'},
		{fs.ModeCharDevice, 'c'},
	} {
		if mode&kind.bit != 0 {
			text[0] = kind.letter
		}
	}
	for _, special := range []struct {
		bit    fs.FileMode
		at     int
		letter byte
	}{{fs.ModeSetuid, 3, 's'}, {fs.ModeSetgid, 6, 's'}, {fs.ModeSticky, 9, 't'}} {
		if mode&special.bit == 0 {
			continue
		}
		if text[special.at] == 'x' {
			text[special.at] = special.letter
		} else {
			text[special.at] = special.letter - 'a' + 'A'
		}
	}
	return string(text)
}
