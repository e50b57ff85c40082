package guest

import "encoding/json"

// Watch is a request for the changes below a path. Descriptor 1 carries one WatchEvent in JSON on each line, until the
// time is over or descriptor 0 ends.
type Watch struct {
	// Path is absolute: a directory, or one file.
	Path string `json:"path"`
	// Recursive includes directories below path, also later ones.
	Recursive bool `json:"recursive,omitempty"`
	// Filter names the event types to report; nil means all.
	Filter *[]string `json:"filter,omitempty"`
	// Seconds bounds the time; nil does not.
	Seconds *int `json:"timeout_secs,omitempty"`
}

// Types of a WatchEvent.
const (
	WatchCreate = "Create"
	WatchModify = "Modify" // content or attributes
	WatchRemove = "Remove"
	// WatchRename has both paths: the old one, then the new one. If a file left the watched directory or came from
	// elsewhere, it has only one of them.
	WatchRename     = "Rename"
	WatchRenameFrom = "RenameFrom"
	WatchRenameTo   = "RenameTo"
)

// WatchEvent is one change.
type WatchEvent struct {
	Type  string   `json:"event_type"`
	Paths []string `json:"paths"`
}

// Argv returns the command line that runs w.
func (w Watch) Argv(program string) ([]string, error) {
	text, err := json.Marshal(w)
	return []string{program, ModeWatch, string(text)}, err
}
