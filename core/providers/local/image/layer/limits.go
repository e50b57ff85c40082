package layer

import (
	"io"

	"github.com/seed-0724f904/sb/core"
)

// Limits bound what an image may take. The zero value allows nothing.
type Limits struct {
	// Inodes is how many files and directories the tree has.
	Inodes int
	// Headers is how many entries all layers have.
	Headers int
	// Names is the size of all names and targets of links in all layers, in bytes.
	Names int64
	// Content is the size of all layers without compression, holes of files included, in bytes.
	Content int64
	// Ratio is how many times larger than the compressed layers that may be, and Free the size up to which it does not
	// matter.
	Ratio, Free int64
}

// DefaultLimits returns the limits for images of a registry. The largest images in use have about half a million files
// and 50 GB. Tree takes up to 300 MB of memory for a million files.
func DefaultLimits() Limits {
	return Limits{
		Inodes: 1e6, Headers: 4e6, Names: 256 << 20,
		// Text compresses to a tenth, and gzip makes at most a thousandth of zeros.
		Content: 128 << 30, Ratio: 200, Free: 1 << 30,
	}
}

// refused is the error for an entry of a layer.
func refused(entry, format string, args ...any) error {
	return core.Errorf(core.KindUsage, "local.image", entry, format, args...)
}

// tooMuch is the error for a layer that exceeds a limit.
func tooMuch(entry, format string, args ...any) error {
	return core.Errorf(core.KindExhausted, "local.image", entry, format, args...)
}

// Meter counts the bytes of layers. It is for one goroutine at a time.
type Meter struct {
	limits Limits
	// packed, plain and written are the bytes of compressed layers, of the archives in them, and of the files in those:
	// a sparse file has more than its archive.
	packed, plain, written int64
}

// NewMeter returns a meter that has counted nothing.
func NewMeter(limits Limits) *Meter { return &Meter{limits: limits} }

// Packed counts what is read of a compressed layer.
func (m *Meter) Packed(r io.Reader) io.Reader {
	return metered{r, func(n int64) error {
		m.packed += n
		return nil
	}}
}

// Plain counts what is read of a layer without compression. It returns KindExhausted where a limit is exceeded.
func (m *Meter) Plain(r io.Reader) io.Reader {
	return metered{r, func(n int64) error {
		m.plain += n
		return m.check(m.plain)
	}}
}

// content counts what is read of a file in an archive.
func (m *Meter) content(r io.Reader) io.Reader {
	return metered{r, func(n int64) error {
		m.written += n
		return m.check(m.written)
	}}
}

// check compares a size without compression with the limits.
func (m *Meter) check(size int64) error {
	switch {
	case size > m.limits.Content:
		return tooMuch("", "the layers have more than %s without compression", core.Bytes(m.limits.Content))
	case size > m.limits.Free && size/m.limits.Ratio > m.packed:
		return tooMuch("", "the layers are a decompression bomb: %s of %s", core.Bytes(size), core.Bytes(m.packed))
	}
	return nil
}

// metered has what is read counted, and fails where that does.
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
