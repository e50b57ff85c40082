package core

import (
	"io/fs"
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
