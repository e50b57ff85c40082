package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/guest"
	"github.com/seed-0724f904/sb/core/providers/docker/wire"
)

// files is guest.Transport: each operation is a call of its own.
type files struct{ p *Provider }

// operation is one run of sb-guest for files: what is written to the call is its body, what is read the answer.
type operation struct {
	*call
	name string
	stop func() bool
	ctx  context.Context //nolint:containedctx // an io.Reader has no other way to say why it broke off

	// broken says that the call was closed on purpose.
	broken atomic.Bool

	once sync.Once
	// ended is how the connection ended, err how the operation did.
	ended, err error
}

// Operate implements guest.Transport.
func (f files) Operate(ctx context.Context, id string, request guest.Request) (guest.Operation, error) {
	argv, err := request.Argv()
	if err != nil {
		return nil, core.Wrap("docker.files", string(request.Path), err)
	}
	c, err := f.p.dial(ctx, id, string(request.Op), wire.Request{Verb: wire.VerbFiles, File: argv})
	if err != nil {
		return nil, err
	}
	op := &operation{call: c, name: string(request.Path), ctx: ctx}
	op.stop = context.AfterFunc(ctx, c.close)
	return op, nil
}

// Read implements io.Reader.
func (o *operation) Read(p []byte) (int, error) {
	n, err := o.line.Read(p)
	if err != nil {
		if o.ended == nil {
			o.ended = err
		}
		err = io.EOF // Close tells why
	}
	return n, err
}

// WriteTo implements io.WriterTo, as the line does best.
func (o *operation) WriteTo(w io.Writer) (int64, error) {
	direct, ok := o.line.(io.WriterTo)
	if !ok {
		return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{o}, make([]byte, frameBuffer))
	}
	n, err := direct.WriteTo(w)
	if errors.Is(err, os.ErrClosed) {
		err = nil // Close tells why
	}
	return n, err
}

// Write implements io.Writer.
func (o *operation) Write(p []byte) (int, error) { return o.line.Write(p) }

// CloseWrite implements guest.Operation. The body's framing tells its end from a break, without an engine that passes on
// half-closed connections; half a body is told by the end of the connection.
func (o *operation) CloseWrite() error { return nil }

// Break implements guest.Operation.
func (o *operation) Break() {
	o.broken.Store(true)
	o.close()
}

// Close implements guest.Operation. What comes last is the report.
func (o *operation) Close() error {
	o.once.Do(func() {
		if o.ctx.Err() == nil && o.ended == nil {
			_, _ = io.CopyBuffer(io.Discard, struct{ io.Reader }{o}, make([]byte, frameBuffer))
		}
		o.err = o.outcome()
		o.stop()
		o.close()
	})
	return o.err
}

// outcome is what the report says.
func (o *operation) outcome() error {
	if o.ctx.Err() != nil {
		return core.Wrap("docker."+o.op, o.name, o.ctx.Err())
	}
	if o.broken.Load() {
		return core.Errorf(core.KindCanceled, "docker."+o.op, o.name, "it was given up")
	}
	said := o.said()
	if len(said) == 0 {
		return o.broke(errors.Join(o.ended, io.ErrUnexpectedEOF))
	}
	report, err := guest.DecodeReport(said)
	if err != nil {
		return err
	}
	return report.Err("docker." + o.op)
}
