package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/seed-0724f904/sb/core"
)

const (
	headerSize = 13
	sumSize    = 4
	// MaxRecord bounds one record's data.
	MaxRecord = 1 << 20
	stdoutTag = 1
	stderrTag = 2
	// summedBit is set in the first byte of the time and in the stream of a record with checksums. Earlier versions wrote
	// none. It is in two bytes, so one changed byte cannot make a record look like an old one.
	summedBit = 0x80
)

// errCut is the end of a file that is being written, or was when its writer died.
var errCut = errors.New("record is cut short")

// header is the part of a record before its data.
type header struct {
	time   time.Time
	stream core.Stream
	length int64
	summed bool
}

// size returns the bytes of the whole record.
func (h header) size() int64 {
	size := headerSize + h.length
	if h.summed {
		size += 2 * sumSize
	}
	return size
}

// appendRecord appends a record of at most MaxRecord bytes.
func appendRecord(to []byte, at time.Time, stream core.Stream, data []byte) []byte {
	tag := byte(stdoutTag)
	if stream == core.Stderr {
		tag = stderrTag
	}
	begin := len(to)
	to = binary.BigEndian.AppendUint64(to, uint64(at.UnixNano()))
	to[begin] |= summedBit
	to = append(to, tag|summedBit)
	to = binary.BigEndian.AppendUint32(to, uint32(len(data))) //nolint:gosec // at most MaxRecord
	to = binary.BigEndian.AppendUint32(to, sum(to[begin:]))
	to = append(to, data...)
	return binary.BigEndian.AppendUint32(to, sum(data))
}

// readHeader reads the header of a record. io.EOF is a clean end.
func readHeader(r io.Reader) (header, error) {
	var text [headerSize + sumSize]byte
	if _, err := io.ReadFull(r, text[:headerSize]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return header{}, errCut
		}
		return header{}, err
	}
	h := header{stream: core.Stdout, length: int64(binary.BigEndian.Uint32(text[9:])), summed: text[8]&summedBit != 0}
	if marked := text[0]&summedBit != 0; marked != h.summed {
		return header{}, errors.New("a record's header is damaged")
	}
	if h.summed {
		if _, err := io.ReadFull(r, text[headerSize:]); err != nil {
			return header{}, errCut
		}
		if sum(text[:headerSize]) != binary.BigEndian.Uint32(text[headerSize:]) {
			return header{}, errors.New("the checksum of a record's header differs")
		}
	}
	switch tag := text[8] &^ summedBit; {
	case tag != stdoutTag && tag != stderrTag:
		return header{}, fmt.Errorf("a record has the unknown stream %d", tag)
	case h.length > MaxRecord:
		return header{}, fmt.Errorf("a record has %d bytes", h.length)
	case tag == stderrTag:
		h.stream = core.Stderr
	}
	text[0] &^= summedBit
	h.time = time.Unix(0, int64(binary.BigEndian.Uint64(text[:8]))) //nolint:gosec // any number is a time
	return h, nil
}

// readRecord reads one record, and returns its size. io.EOF is a clean end. If only the data is damaged, readRecord
// returns the size with the error.
func readRecord(r io.Reader) (record core.LogRecord, size int64, err error) {
	h, err := readHeader(r)
	if err != nil {
		return core.LogRecord{}, 0, err
	}
	behind := h.length
	if h.summed {
		behind += sumSize
	}
	data := make([]byte, behind)
	if _, err := io.ReadFull(r, data); err != nil {
		return core.LogRecord{}, 0, errCut
	}
	if h.summed && sum(data[:h.length]) != binary.BigEndian.Uint32(data[h.length:]) {
		return core.LogRecord{}, h.size(), errors.New("the checksum of a record differs")
	}
	return core.LogRecord{Time: h.time, Stream: h.stream, Data: data[:h.length:h.length]}, h.size(), nil
}

// nextHeader returns the position of the first header with a checksum that begins at from or later in r. ok is false if
// there is none.
func nextHeader(r io.ReaderAt, from int64) (at int64, ok bool) {
	const step = 1 << 20
	window := make([]byte, step+headerSize+sumSize-1) // windows overlap, so that a header lies in one of them
	for {
		n, err := r.ReadAt(window, from)
		for i := 0; i+headerSize+sumSize <= n; i++ {
			if window[i]&summedBit == 0 || window[i+8]&summedBit == 0 {
				continue
			}
			if h, err := readHeader(bytes.NewReader(window[i:n])); err == nil && h.summed {
				return from + int64(i), true
			}
		}
		if err != nil {
			return 0, false
		}
		from += step
	}
}

func sum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }
