package sparse

import (
	"bytes"
	"io"
)

// File has the methods of a file that a Writer needs.
type File interface {
	io.Writer
	io.Seeker
	Truncate(size int64) error
}

// holeSize is the shortest run of zeros that becomes a hole, in bytes.
const holeSize = 64 << 10

// Writer writes a new file and leaves out long runs of zeros. Finish must be the last call. It is not safe for
// concurrent use.
type Writer struct {
	f File
	// skipped means that the file ends with a hole.
	skipped bool
}

// NewWriter returns a writer of f, an empty file.
func NewWriter(f File) *Writer { return &Writer{f: f} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		end := written
		for end < len(p) && !isHole(p[end:]) {
			end += min(holeSize, len(p)-end)
		}
		if end == written {
			if _, err := w.f.Seek(holeSize, io.SeekCurrent); err != nil {
				return written, err
			}
			w.skipped = true
			written += holeSize
			continue
		}
		n, err := w.f.Write(p[written:end])
		written += n
		if err != nil {
			return written, err
		}
		w.skipped = false
	}
	return written, nil
}

// isHole reports whether p begins with holeSize zeros.
func isHole(p []byte) bool {
	return len(p) >= holeSize && p[0] == 0 && bytes.Equal(p[:holeSize-1], p[1:holeSize])
}

// Finish sets the size of a file that ends with a hole.
func (w *Writer) Finish() error {
	if !w.skipped {
		return nil
	}
	size, err := w.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	return w.f.Truncate(size)
}
