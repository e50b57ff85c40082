package docker

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// line carries a call's streams to a sandbox's first process and back. Read returns the output of that process. Close
// signals it that the caller has left; it may be called at any time, and more than once.
type line interface {
	io.ReadWriteCloser
	// CloseWrite signals the end of the input to the first process, if the engine passes that on.
	CloseWrite() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	// diagnostics returns the output beside the answer: sb-guest's report, or an error. It is complete at the answer's
	// end.
	diagnostics() []byte
}

// engineLine is an exec of "sb-guest call" through the engine.
type engineLine struct {
	conn  client.HijackedResponse
	demux demux
}

// lineBuffer holds several of the engine's pieces, which have at most 32 KiB.
const lineBuffer = 256 << 10

// execLine opens an engineLine.
func (e containers) execLine(ctx context.Context, k known) (line, error) {
	created, err := e.Client.ExecCreate(ctx, k.container, client.ExecCreateOptions{
		User: wire.CallUser, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Cmd: []string{k.dir.Program(), wire.ModeCall},
	})
	if err != nil {
		return nil, err
	}
	attached, err := e.Client.ExecAttach(ctx, created.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}
	l := &engineLine{conn: attached.HijackedResponse}
	l.demux = demux{r: bufio.NewReaderSize(l.conn.Reader, lineBuffer), stderr: &limited{left: guest.MaxReport}}
	return l, nil
}

// Read implements io.Reader.
func (l *engineLine) Read(p []byte) (int, error) { return l.demux.Read(p) }

// Write implements io.Writer.
func (l *engineLine) Write(p []byte) (int, error) { return l.conn.Conn.Write(p) }

// Close implements io.Closer.
func (l *engineLine) Close() error {
	l.conn.Close()
	return nil
}

// CloseWrite implements line.
func (l *engineLine) CloseWrite() error { return l.conn.CloseWrite() }

// SetReadDeadline implements line.
func (l *engineLine) SetReadDeadline(t time.Time) error { return l.conn.Conn.SetReadDeadline(t) }

// SetWriteDeadline implements line.
func (l *engineLine) SetWriteDeadline(t time.Time) error { return l.conn.Conn.SetWriteDeadline(t) }

func (l *engineLine) diagnostics() []byte { return l.demux.stderr.data }

// demux reads the stdout of an engine's multiplexed stream, and keeps stderr separately. A failure that sb-guest
// reports on stderr ends the stream: the sandbox then still reads the caller's input and waits for the caller to leave.
type demux struct {
	r      io.Reader
	left   int
	stderr *limited
}

// Each piece of the engine's stream has a header of eight bytes: the stream's number, three zeros, and the piece's
// length.
const (
	demuxHeader = 8
	demuxStderr = 2
)

// Read implements io.Reader.
func (d *demux) Read(p []byte) (int, error) {
	for d.left == 0 {
		var header [demuxHeader]byte
		if _, err := io.ReadFull(d.r, header[:]); err != nil {
			return 0, err
		}
		size := int(binary.BigEndian.Uint32(header[4:]))
		if header[0] < demuxStderr {
			d.left = size
			continue
		}
		if _, err := io.CopyN(d.stderr, d.r, int64(size)); err != nil {
			return 0, err
		}
		if report, err := guest.DecodeReport(d.stderr.data); err == nil && report.Error != nil {
			return 0, io.EOF
		}
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	return n, err
}
