package fake

import (
	"io/fs"
	"time"
)

// info implements fs.FileInfo for a node.
type info struct {
	name string
	node node
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.node.size() }
func (i info) Mode() fs.FileMode  { return i.node.mode }
func (i info) ModTime() time.Time { return i.node.modTime }
func (i info) IsDir() bool        { return i.node.children != nil }
func (i info) Sys() any           { return nil }
