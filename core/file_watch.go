package core

import (
	"context"
	"iter"
)

// FileEventKind is the kind of a change to a file.
type FileEventKind string

// The kinds.
const (
	FileCreated  FileEventKind = "created"
	FileModified FileEventKind = "modified" // content or attributes
	FileRemoved  FileEventKind = "removed"
	FileRenamed  FileEventKind = "renamed"
)

// FileEvent is one change in a sandbox's filesystem.
type FileEvent struct {
	Kind FileEventKind `json:"kind"`
	// Path is absolute. For a rename it is the new path if the watch includes it, else the old one.
	Path string `json:"path"`
	// From is the old path of a rename, if both paths are watched.
	From string `json:"from,omitempty"`
}

// FileWatcher reports changes in a sandbox's filesystem. Its capability is CapFileWatch.
type FileWatcher interface {
	// WatchFiles yields the changes of a file or of a directory's entries; with recursive, of the whole tree. It ends when
	// ctx ends, the caller stops or the sandbox ends; an error is the last value. Changes from before the watch is active
	// are not reported.
	WatchFiles(ctx context.Context, id, path string, recursive bool) iter.Seq2[FileEvent, error]
}
