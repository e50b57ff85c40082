package transfer

import (
	"bytes"
	"io"
	"os"
)

// holeSize is how many zeros become a hole at least, in bytes.
const holeSize = 64 << 10

// holeWriter writes a new file and leaves out long runs of zeros, which take no room on the disk then.
type holeWriter struct {
	f *os.File
	// skipped says that the file ends with a hole.
	skipped bool
}

// Write implements io.Writer.
func (w *holeWriter) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		end := written
		for end < len(p) && !isHole(p[end:]) { // what is no hole is written at once
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

// isHole says whether p begins with a hole's worth of zeros.
func isHole(p []byte) bool {
	return len(p) >= holeSize && p[0] == 0 && bytes.Equal(p[:holeSize-1], p[1:holeSize])
}

// end gives the file its size.
func (w *holeWriter) end() error {
	if !w.skipped {
		return nil
	}
	size, err := w.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	return w.f.Truncate(size)
}
