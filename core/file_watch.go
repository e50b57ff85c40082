package core

import (
	"context"
	"iter"
)

// FileEventKind says what happened to a file.
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
	// Path is absolute. Of what was renamed it is where it is now, if that is watched, else where it was.
	Path string `json:"path"`
	// From is where something renamed was, if both places are watched.
	From string `json:"from,omitempty"`
}

// FileWatcher tells what changes in a sandbox's filesystem. Its capability is CapFileWatch.
type FileWatcher interface {
	// WatchFiles yields the changes of a file, or of a directory's entries, with recursive of all below, too. It goes on until
	// ctx ends, the caller stops or the sandbox ends; an error comes last. What changes before the watch stands in the
	// sandbox is not told.
	WatchFiles(ctx context.Context, id, path string, recursive bool) iter.Seq2[FileEvent, error]
}
