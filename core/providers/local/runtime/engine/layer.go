//go:build linux

package engine

import (
	"archive/tar"
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/container"

	"github.com/seed-0724f904/sb/core"
)

// maxLayer is the highest size of all files of an archive of the writable layer, in bytes, holes included. It applies
// to sandboxes without a limit of disk space.
const maxLayer = 128 << 30

// copyBuffer is the size of buffers for archives and files, in bytes.
const copyBuffer = 64 << 10

// Layer writes the writable layer to a pipe or file, as a tar archive. A character device 0:0 marks a removed file, and
// the record opaque a directory that hides the entries below it. The processes inside must be suspended. KindExhausted:
// the files have more bytes than the sandbox's disk, holes included.
func (b *Box) Layer(to *os.File) error {
	return b.call(func(c *container.Container) error {
		limit := b.maxLayer()
		out := tar.NewWriter(to)
		err := b.readLayer(c, func(header *tar.Header, content *layerFile) error {
			if content == nil {
				return out.WriteHeader(header)
			}
			if limit -= content.size; limit < 0 {
				return core.Errorf(
					core.KindExhausted, "local.layer", path.Join("/", header.Name), //nolint:gosec // for the message
					"the changed files are larger than the disk of %s, holes included", core.Bytes(b.maxLayer()),
				).WithHint("remove the file, or use a larger disk: --disk")
			}
			header.Size = content.size
			if err := out.WriteHeader(header); err != nil {
				return err
			}
			return content.copy(out)
		})
		if err != nil {
			return err
		}
		return out.Close()
	})
}

func (b *Box) maxLayer() int64 { return cmp.Or(b.config.Limits.Disk, maxLayer) }

// readLayer calls entry for each entry of the writable layer. content is nil for all but regular files, and valid
// during the call.
//
// gVisor's own archive has the content of each file, which gVisor reads into its memory as a whole. This one has only
// the places of the content in the file behind the layer. gVisor makes it for saved file systems. The sandbox stands
// still while entry reads.
func (b *Box) readLayer(c *container.Container, entry func(header *tar.Header, content *layerFile) error) error {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	// The sentry needs a blocking descriptor. So these are not the runtime's.
	out, in := os.NewFile(uintptr(fds[0]), "layer"), os.NewFile(uintptr(fds[1]), "layer")
	written := make(chan error, 1)
	go func() { written <- saveLayer(c, in) }()
	archive := bufio.NewReaderSize(out, copyBuffer)
	err := b.readSaved(tar.NewReader(archive), entry)
	if err == nil {
		_, err = io.Copy(io.Discard, archive)
	}
	_ = out.Close() // ends the writer, also after a partial read
	writeErr := <-written
	if err != nil {
		if _, ours := errors.AsType[*core.Error](err); ours {
			return err
		}
		return errors.Join(err, writeErr)
	}
	if writeErr != nil {
		return fmt.Errorf("reading the writable layer: %w", writeErr)
	}
	return nil
}

// saveLayer makes gVisor write the archive of a saved file system to a pipe, and closes the pipe. The other parts of a
// saved file system are dropped.
func saveLayer(c *container.Container, to *os.File) error {
	defer func() { _ = to.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	conn, err := client.ConnectTo(c.Sandbox.GetControlSocketPath())
	if err != nil {
		return fmt.Errorf("connecting to the sandbox: %w", err)
	}
	defer func() { _ = conn.Close() }()
	// The manifest, the archive, and the places and the content of pages.
	args := boot.FSSaveArgs{FilePayload: urpc.FilePayload{Files: []*os.File{null, to, null, null}}}
	return conn.Call(boot.ContMgrFSSave, &args, nil)
}

// readSaved reads the archive of a saved file system.
func (b *Box) readSaved(archive *tar.Reader, entry func(header *tar.Header, content *layerFile) error) error {
	buffer := make([]byte, copyBuffer)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the writable layer: %w", err)
		}
		var content *layerFile
		if header.Typeflag == tar.TypeReg {
			content = &layerFile{places: archive, data: b.overlay, buffer: buffer}
			if err := binary.Read(archive, binary.LittleEndian, &content.size); err != nil {
				return fmt.Errorf("reading the size of %s: %w", header.Name, err)
			}
			if content.size < 0 {
				return fmt.Errorf("the size of %s is negative", header.Name)
			}
		}
		if err := entry(header, content); err != nil {
			return err
		}
	}
}

// layerFile is the content of a regular file in the writable layer.
type layerFile struct {
	size   int64     // bytes
	places io.Reader // of each part that is no hole, in order
	data   io.ReaderAt
	buffer []byte
}

// place is a part of a file. It has the layout of gVisor's fsckptRegularFileSegment.
type place struct {
	Start, End uint64 // in the file; End may be above the file's size
	Offset     uint64 // in the file behind the layer
}

// copy writes the content to a writer.
func (f *layerFile) copy(to io.Writer) error {
	at := int64(0)
	for {
		var p place
		err := binary.Read(f.places, binary.LittleEndian, &p)
		if errors.Is(err, io.EOF) {
			return f.zeros(to, f.size-at)
		}
		if err != nil {
			return fmt.Errorf("reading the places of a file: %w", err)
		}
		//nolint:gosec // a number above the highest int64 is negative, and refused
		start, end, offset := int64(p.Start), min(int64(p.End), f.size), int64(p.Offset)
		if start >= f.size {
			continue
		}
		if start < at || end < start || offset < 0 {
			return errors.New("the places of a file are not in order")
		}
		if err := f.zeros(to, start-at); err != nil {
			return err
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{to}, io.NewSectionReader(f.data, offset, end-start), f.buffer)
		if err != nil {
			return err
		}
		// The file behind the layer may end before the last page does.
		if err := f.zeros(to, end-start-n); err != nil {
			return err
		}
		at = end
	}
}

// zeros writes n zeros.
func (f *layerFile) zeros(to io.Writer, n int64) error {
	clear(f.buffer)
	for n > 0 {
		written, err := to.Write(f.buffer[:min(n, int64(len(f.buffer)))])
		if err != nil {
			return err
		}
		n -= int64(written)
	}
	return nil
}
