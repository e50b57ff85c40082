package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync"
)

// ChunkSize is the maximum content of one frame of a body, in bytes.
const ChunkSize = 1 << 20

const frameHeader = 4

// breakMark is the length in the frame that ends a body early.
const breakMark = math.MaxUint32

// BodyWriter frames content so that its reader can distinguish the end from a break. Each frame is a length (4 bytes,
// big endian) and that many bytes. Length 0 is the end, breakMark a break.
// Break may be called while another goroutine uses the other methods.
type BodyWriter struct {
	mu     sync.Mutex // guards writes to w, and broken
	w      io.Writer
	broken bool
	buf    []byte // room for a header, then the unsent data
}

// NewBodyWriter returns a writer that buffers up to ChunkSize.
func NewBodyWriter(w io.Writer) *BodyWriter {
	return &BodyWriter{w: w, buf: make([]byte, frameHeader, frameHeader+ChunkSize)}
}

// Write implements io.Writer.
func (b *BodyWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), cap(b.buf)-len(b.buf))
		b.buf = append(b.buf, p[:n]...)
		p, written = p[n:], written+n
		if len(b.buf) == cap(b.buf) {
			if err := b.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// ReadFrom implements io.ReaderFrom. It avoids a copy and sends the bytes of each read at once.
func (b *BodyWriter) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	for {
		n, err := r.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		total += int64(n)
		if len(b.buf) > frameHeader {
			if err := b.flush(); err != nil {
				return total, err
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Close sends the buffer and the end. It does not close the writer below. Without Close the body is broken, and its
// operation does not happen.
func (b *BodyWriter) Close() error {
	if len(b.buf) > frameHeader {
		if err := b.flush(); err != nil {
			return err
		}
	}
	return b.flush()
}

// Break ends the body early: its reader gets io.ErrUnexpectedEOF, unless the body is whole already. Buffered content is
// not sent, and later calls of other methods fail. Break waits for a frame that is being written.
func (b *BodyWriter) Break() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return nil
	}
	b.broken = true
	_, err := b.w.Write(binary.BigEndian.AppendUint32(nil, breakMark))
	return err
}

var errBroken = errors.New("the body was interrupted")

func (b *BodyWriter) flush() error {
	//nolint:gosec // the buffer's capacity bounds the length
	binary.BigEndian.PutUint32(b.buf[:frameHeader], uint32(len(b.buf)-frameHeader))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return errBroken
	}
	_, err := b.w.Write(b.buf)
	b.buf = b.buf[:frameHeader]
	return err
}

// BodyReader reads the frames of a BodyWriter.
type BodyReader struct {
	r    io.Reader
	left int
	err  error
}

// NewBodyReader returns a reader of r. It never reads past the end of the body.
func NewBodyReader(r io.Reader) *BodyReader { return &BodyReader{r: r} }

// Read implements io.Reader. A body that ends early is io.ErrUnexpectedEOF.
func (b *BodyReader) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.left == 0 {
		if b.err = b.next(); b.err != nil {
			return 0, b.err
		}
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	if errors.Is(err, io.EOF) {
		err = nil
		if n == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	b.err = err
	return n, err
}

func (b *BodyReader) next() error {
	var header [frameHeader]byte
	if _, err := io.ReadFull(b.r, header[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	length := binary.BigEndian.Uint32(header[:])
	switch {
	case length == 0:
		return io.EOF
	case length == breakMark:
		return io.ErrUnexpectedEOF
	case length > ChunkSize:
		return errFrame
	}
	b.left = int(length)
	return nil
}

var errFrame = errors.New("a frame of the body is too long")
