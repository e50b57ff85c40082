package layer

import (
	"io"

	"github.com/seed-0724f904/sb/core"
)

// Limits bound the resources of an image. The zero value allows nothing.
type Limits struct {
	// Inodes bounds the files and directories of the tree.
	Inodes int
	// Headers bounds the entries of all layers.
	Headers int
	// Names bounds the size of all names and targets of links in all layers, in bytes.
	Names int64
	// Content bounds the uncompressed size of all layers in bytes, including holes of files.
	Content int64
	// Ratio bounds the uncompressed size divided by the compressed size. It does not apply up to the uncompressed size
	// Free, in bytes.
	Ratio, Free int64
}

// DefaultLimits returns the limits for images of a registry. The largest images in use have about half a million files
// and 50 GB. Tree takes up to 300 MB of memory for a million files.
func DefaultLimits() Limits {
	return Limits{
		Inodes: 1e6, Headers: 4e6, Names: 256 << 20,
		// Text compresses to a tenth of its size. gzip compresses zeros to a thousandth at most.
		Content: 128 << 30, Ratio: 200, Free: 1 << 30,
	}
}

// refused returns the error for an invalid entry of a layer.
func refused(entry, format string, args ...any) error {
	return core.Errorf(core.KindUsage, "local.image", entry, format, args...)
}

// tooMuch returns the error for a layer that exceeds a limit.
func tooMuch(entry, format string, args ...any) error {
	return core.Errorf(core.KindExhausted, "local.image", entry, format, args...)
}

// Meter counts the bytes of layers. It is not safe for concurrent use.
type Meter struct {
	limits Limits
	// packed are the bytes of compressed layers, plain those of their archives, and written those of the archived files.
	// A sparse file has more bytes than its archive.
	packed, plain, written int64
}

// NewMeter returns a meter with zero counts.
func NewMeter(limits Limits) *Meter { return &Meter{limits: limits} }

// Packed counts the bytes that are read from a compressed layer.
func (m *Meter) Packed(r io.Reader) io.Reader {
	return metered{r, func(n int64) error {
		m.packed += n
		return nil
	}}
}

// Plain counts the bytes that are read from an uncompressed layer. A read beyond a limit returns KindExhausted.
func (m *Meter) Plain(r io.Reader) io.Reader {
	return metered{r, func(n int64) error {
		m.plain += n
		return m.check(m.plain)
	}}
}

// content counts the bytes that are read from a file in an archive.
func (m *Meter) content(r io.Reader) io.Reader {
	return metered{r, func(n int64) error {
		m.written += n
		return m.check(m.written)
	}}
}

// check compares an uncompressed size with the limits.
func (m *Meter) check(size int64) error {
	switch {
	case size > m.limits.Content:
		return tooMuch("", "the layers have more than %s without compression", core.Bytes(m.limits.Content))
	case size > m.limits.Free && size/m.limits.Ratio > m.packed:
		return tooMuch("", "the layers are a decompression bomb: %s of %s", core.Bytes(size), core.Bytes(m.packed))
	}
	return nil
}

// metered passes the number of read bytes to count, and returns its error.
type metered struct {
	from  io.Reader
	count func(int64) error
}

func (r metered) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if over := r.count(int64(n)); over != nil {
		return 0, over
	}
	return n, err
}
