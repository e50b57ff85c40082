package guest

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Entry is a core.FileInfo on the wire.
type Entry struct {
	Path    []byte `json:"path"`
	Size    int64  `json:"size"`
	Mode    uint32 `json:"mode"` // an fs.FileMode
	ModTime int64  `json:"mtime_ns"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Link    []byte `json:"link,omitempty"`
}

// FileInfo returns the entry as core knows it.
func (e Entry) FileInfo() core.FileInfo {
	return core.FileInfo{
		Path: string(e.Path), Size: e.Size, Mode: fs.FileMode(e.Mode),
		ModTime: time.Unix(0, e.ModTime), UID: e.UID, GID: e.GID, Link: string(e.Link),
	}
}

// DecodeEntries reads the answer to OpStat or OpReadDir to its end.
func DecodeEntries(r io.Reader) ([]core.FileInfo, error) {
	infos := []core.FileInfo{}
	for d := json.NewDecoder(r); ; {
		var e Entry
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return infos, nil
		}
		if err != nil {
			return nil, core.Errorf(core.KindInternal, "guest", "", "sb-guest's answer is damaged: %w", err)
		}
		infos = append(infos, e.FileInfo())
	}
}
