package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// The frames of a call to a box: a type, a length of four bytes, and so many bytes. From the caller:
const (
	FrameSetup    = 'u' // a Setup, on the box's own stdin
	FrameRequest  = 'q' // a signed Request
	FrameStdin    = 'i' // bytes of stdin
	FrameStdinEnd = 'e'
	FrameControl  = 'c' // a Control
)

// From the box:
const (
	FrameStarted      = 's' // a Started
	FrameStdout       = 'o' // bytes
	FrameStderr       = 'x' // bytes
	FrameRecord       = 'r' // a log record, see AppendRecord
	FrameStdinAck     = 'a' // the number of stdin bytes passed to the command, see StdinWindow
	FrameExec         = 'l' // an entry of the journal, as journal.Entries.Encode signs it
	FrameControlReply = 't' // a Reply to a Control with a signal or a size, in their order
	FrameReply        = 'd' // a Reply, the last frame but after VerbFile
	FrameRequestAck   = 'h' // another request on the same call has arrived
)

// StdinWindow is how many bytes of stdin a caller may send ahead of FrameStdinAck. So a command that does not read
// never delays a Control.
const StdinWindow = 1 << 20

// MaxFrame bounds a frame's payload in bytes. A request with the most arguments and variables that core allows is below
// it, even if JSON escapes all bytes.
const MaxFrame = 32 << 20

const frameHeader = 5

// ErrFrame is a frame that is too long or of an unknown type.
var ErrFrame = errors.New("not a frame")

// AppendFrame appends the frame to b.
func AppendFrame(b []byte, kind byte, payload []byte) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // callers stay below MaxFrame
	return append(b, payload...)
}

// ReadFrame reads one frame, and never beyond it. The payload is in buf if it fits. io.EOF means a clean end.
func ReadFrame(r io.Reader, buf []byte) (kind byte, payload []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint32(header[1:]))
	if length > MaxFrame || header[0] < 'a' || header[0] > 'z' {
		return 0, nil, ErrFrame
	}
	if length > cap(buf) {
		buf = make([]byte, length)
	}
	payload = buf[:length]
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return header[0], payload, nil
}

// AppendStdinAck appends the payload of FrameStdinAck.
func AppendStdinAck(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // at most StdinWindow
}

// ParseStdinAck parses a payload of AppendStdinAck.
func ParseStdinAck(payload []byte) (int, error) {
	if len(payload) != 4 {
		return 0, ErrFrame
	}
	return int(binary.BigEndian.Uint32(payload)), nil
}

const recordHeader = 9

// AppendRecord appends a log record's payload to b.
func AppendRecord(b []byte, record core.LogRecord) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(record.Time.UnixNano()))
	stream := byte(FrameStdout)
	if record.Stream == core.Stderr {
		stream = FrameStderr
	}
	return append(append(b, stream), record.Data...)
}

// ParseRecord parses a payload of AppendRecord. The record's data aliases payload.
func ParseRecord(payload []byte) (core.LogRecord, error) {
	if len(payload) < recordHeader {
		return core.LogRecord{}, ErrFrame
	}
	record := core.LogRecord{
		Time:   time.Unix(0, int64(binary.BigEndian.Uint64(payload))), //nolint:gosec // as it was written
		Stream: core.Stdout, Data: payload[recordHeader:],
	}
	switch payload[recordHeader-1] {
	case FrameStdout:
	case FrameStderr:
		record.Stream = core.Stderr
	default:
		return core.LogRecord{}, ErrFrame
	}
	return record, nil
}
