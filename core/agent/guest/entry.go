package guest

import (
	"bufio"
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

// FileInfo converts the entry to core's type.
func (e Entry) FileInfo() core.FileInfo {
	return core.FileInfo{
		Path: string(e.Path), Size: e.Size, Mode: fs.FileMode(e.Mode),
		ModTime: time.Unix(0, e.ModTime), UID: e.UID, GID: e.GID, Link: string(e.Link),
	}
}

// Limits of an answer that describes files, in bytes. A hostile sandbox can send any amount of data.
const (
	// MaxEntry bounds one Entry. A path and a link's target have 4096 bytes each.
	MaxEntry = 32 << 10
	// MaxListing bounds the entries of a directory. It is enough for some 300 000 files.
	MaxListing = 64 << 20
)

// errTooLong reports an answer above its limit. The reader does not wait for its end.
var errTooLong = errors.New("the sandbox's answer is too long")

// DecodeStat decodes the answer to OpStat of name, which is absolute and clean.
func DecodeStat(r io.Reader, name string) (core.FileInfo, error) {
	infos, err := decodeEntries(r, MaxEntry)
	if err != nil {
		return core.FileInfo{}, err
	}
	if len(infos) != 1 {
		return core.FileInfo{}, core.Errorf(core.KindInternal, "guest", name, "sb-guest answered %d entries", len(infos))
	}
	return infos[0], core.CheckFile(name, infos[0])
}

// DecodeListing decodes the answer to OpReadDir of dir, which is absolute and clean.
func DecodeListing(r io.Reader, dir string) ([]core.FileInfo, error) {
	infos, err := decodeEntries(r, MaxListing)
	if err != nil {
		return nil, err
	}
	return infos, core.CheckListing(dir, infos)
}

// DecodeNothing decodes the answer of an operation without a result.
func DecodeNothing(r io.Reader) (struct{}, error) {
	_, err := decodeEntries(r, 0)
	return struct{}{}, err
}

// decodeEntries reads lines of at most limit bytes in all.
func decodeEntries(r io.Reader, limit int64) ([]core.FileInfo, error) {
	bounded := &io.LimitedReader{R: r, N: limit + 1}
	lines := bufio.NewScanner(bounded)
	lines.Buffer(make([]byte, 0, min(limit+1, answerBuffer)), MaxEntry)
	infos := []core.FileInfo{}
	for lines.Scan() && bounded.N > 0 {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, core.Errorf(core.KindInternal, "guest", "", "sb-guest's answer is damaged: %w", err)
		}
		infos = append(infos, e.FileInfo())
	}
	if bounded.N <= 0 || errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, core.Errorf(core.KindExhausted, "guest", "", "%w", errTooLong)
	}
	return infos, lines.Err()
}
