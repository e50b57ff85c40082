package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// files is guest.Transport. Each operation has its own call, or follows a short one on the same call. user runs it;
// "" is the sandbox's.
type files struct {
	p    *Provider
	user string
}

var _ core.RootFiler = (*Provider)(nil)

// FilesAsRoot implements core.RootFiler.
func (p *Provider) FilesAsRoot() core.FileSystem { return guest.NewFiles(Name, files{p: p, user: "0"}) }

// operation is one run of sb-guest for files. Writes to the call are its body, and reads are the answer.
type operation struct {
	*call
	name string
	stop func() bool
	ctx  context.Context //nolint:containedctx // io.Reader takes no context

	// broken reports that the call was closed on purpose.
	broken atomic.Bool

	once sync.Once
	// ended is the end of the connection; err is the result of the operation.
	ended, err error
}

// Operate implements guest.Transport.
func (f files) Operate(ctx context.Context, id string, request guest.Request) (guest.Operation, error) {
	argv, err := request.Argv()
	if err != nil {
		return nil, core.Wrap("docker.files", string(request.Path), err)
	}
	wireRequest := wire.Request{Verb: wire.VerbFiles, File: argv}
	wireRequest.User = f.user
	if request.Op == guest.OpStat {
		wireRequest.Verb = wire.VerbFile
	}
	c, err := f.p.spare(ctx, id, string(request.Op), wireRequest)
	if c == nil && err == nil {
		c, err = f.p.dial(ctx, id, string(request.Op), wireRequest)
	}
	if err != nil {
		return nil, err
	}
	if wireRequest.Verb == wire.VerbFile {
		return f.p.short(ctx, c, string(request.Path))
	}
	op := &operation{call: c, name: string(request.Path), ctx: ctx}
	op.stop = context.AfterFunc(ctx, c.close)
	return op, nil
}

// short reads the answer of an operation that has a short one. The call is kept for the next operation.
func (p *Provider) short(ctx context.Context, c *call, name string) (guest.Operation, error) {
	stop := context.AfterFunc(ctx, c.close)
	reply, err := c.reply(nil)
	if !stop() || err != nil {
		c.close()
		if ctx.Err() != nil {
			err = core.Wrap("docker."+c.op, name, ctx.Err())
		}
		return nil, err
	}
	p.keep(c)
	report, err := guest.DecodeReport(reply.Report)
	if err != nil {
		return nil, err
	}
	return shortOperation{Reader: bytes.NewReader(reply.Answer), err: report.Err("docker." + c.op)}, nil
}

// shortOperation is an operation whose result is already known.
type shortOperation struct {
	*bytes.Reader
	err error
}

// Write implements io.Writer: there is no body.
func (o shortOperation) Write(p []byte) (int, error) { return len(p), nil }

// CloseWrite implements guest.Operation.
func (o shortOperation) CloseWrite() error { return nil }

// Break implements guest.Operation.
func (o shortOperation) Break() {}

// Close implements guest.Operation.
func (o shortOperation) Close() error { return o.err }

// Read implements io.Reader.
func (o *operation) Read(p []byte) (int, error) {
	n, err := o.line.Read(p)
	if err != nil {
		if o.ended == nil {
			o.ended = err
		}
		err = io.EOF // Close returns the reason
	}
	return n, err
}

// WriteTo implements io.WriterTo with the fastest copy of the line.
func (o *operation) WriteTo(w io.Writer) (int64, error) {
	direct, ok := o.line.(io.WriterTo)
	if !ok {
		return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{o}, make([]byte, frameBuffer))
	}
	n, err := direct.WriteTo(w)
	if errors.Is(err, os.ErrClosed) {
		err = nil // Close returns the reason
	}
	return n, err
}

// Write implements io.Writer.
func (o *operation) Write(p []byte) (int, error) { return o.line.Write(p) }

// CloseWrite implements guest.Operation. It does nothing, since an engine may not pass on a half-closed connection. The
// framing marks the end of the body. If the connection ends first, the body is incomplete.
func (o *operation) CloseWrite() error { return nil }

// Break implements guest.Operation.
func (o *operation) Break() {
	o.broken.Store(true)
	o.close()
}

// Close implements guest.Operation. It reads to the end of the answer, because the report comes last.
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

// outcome returns the result in the report.
func (o *operation) outcome() error {
	if o.ctx.Err() != nil {
		return core.Wrap("docker."+o.op, o.name, o.ctx.Err())
	}
	if o.broken.Load() {
		return core.Errorf(core.KindCanceled, "docker."+o.op, o.name, "it was given up")
	}
	reason := o.diagnostics()
	if len(reason) == 0 {
		return o.failure(errors.Join(o.ended, io.ErrUnexpectedEOF))
	}
	report, err := guest.DecodeReport(reason)
	if err != nil {
		return err
	}
	return report.Err("docker." + o.op)
}
