package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/guest"
	"github.com/seed-0724f904/sb/core/providers/docker/wire"
)

// operation is one run of sb-guest for files: what is written to the call is its body, what is read the answer.
type operation struct {
	*call
	name   string
	report *limited
	stop   func() bool
	ctx    context.Context //nolint:containedctx // an io.Reader has no other way to say why it broke off
}

// files starts a file operation.
func (p *Provider) files(ctx context.Context, id string, request guest.Request) (*operation, error) {
	argv, err := request.Argv()
	if err != nil {
		return nil, core.Wrap("docker.files", string(request.Path), err)
	}
	c, err := p.dial(ctx, id, string(request.Op), wire.Request{Verb: wire.VerbFiles, File: argv})
	if err != nil {
		return nil, err
	}
	op := &operation{call: c, name: string(request.Path), report: &limited{left: guest.MaxReport}, ctx: ctx}
	c.demux.stderr = op.report
	op.stop = context.AfterFunc(ctx, c.close)
	return op, nil
}

// finish reads what is unread, and says how the operation ended. It closes the call.
func (o *operation) finish(unread io.Writer) error {
	defer o.close()
	defer o.stop()
	_, err := io.CopyBuffer(struct{ io.Writer }{unread}, &o.demux, make([]byte, frameBuffer))
	return o.outcome(err)
}

// outcome is what the report says; err is how the connection ended.
func (o *operation) outcome(err error) error {
	if o.ctx.Err() != nil {
		return core.Wrap("docker."+o.op, o.name, o.ctx.Err())
	}
	if len(o.report.data) == 0 {
		return o.broke(errors.Join(err, io.ErrUnexpectedEOF))
	}
	report, err := guest.DecodeReport(o.report.data)
	if err != nil {
		return err
	}
	return report.Err("docker." + o.op)
}

// simple runs an operation without a body and returns its answer.
func (p *Provider) simple(ctx context.Context, id string, request guest.Request) ([]byte, error) {
	op, err := p.files(ctx, id, request)
	if err != nil {
		return nil, err
	}
	var answer bytes.Buffer
	err = op.finish(&answer)
	return answer.Bytes(), err
}

// Stat implements core.FileSystem.
func (p *Provider) Stat(ctx context.Context, id, path string) (core.FileInfo, error) {
	answer, err := p.simple(ctx, id, guest.Request{Op: guest.OpStat, Path: []byte(path)})
	if err != nil {
		return core.FileInfo{}, err
	}
	infos, err := guest.DecodeEntries(bytes.NewReader(answer))
	if err != nil || len(infos) != 1 {
		return core.FileInfo{}, errors.Join(err, core.Errorf(core.KindInternal, "docker.stat", path, "sb-guest answered %d entries", len(infos)))
	}
	return infos[0], nil
}

// ReadDir implements core.FileSystem.
func (p *Provider) ReadDir(ctx context.Context, id, path string) ([]core.FileInfo, error) {
	answer, err := p.simple(ctx, id, guest.Request{Op: guest.OpReadDir, Path: []byte(path)})
	if err != nil {
		return nil, err
	}
	return guest.DecodeEntries(bytes.NewReader(answer))
}

// Mkdir implements core.FileSystem.
func (p *Provider) Mkdir(ctx context.Context, id, path string, parents bool) error {
	_, err := p.simple(ctx, id, guest.Request{Op: guest.OpMkdir, Path: []byte(path), Parents: parents})
	return err
}

// Remove implements core.FileSystem.
func (p *Provider) Remove(ctx context.Context, id, path string, recursive bool) error {
	_, err := p.simple(ctx, id, guest.Request{Op: guest.OpRemove, Path: []byte(path), Recursive: recursive})
	return err
}

// ReadFile implements core.FileSystem.
func (p *Provider) ReadFile(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return p.answer(ctx, id, guest.Request{Op: guest.OpRead, Path: []byte(path)})
}

// Export implements core.FileSystem.
func (p *Provider) Export(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return p.answer(ctx, id, guest.Request{Op: guest.OpExport, Path: []byte(path)})
}

// answer starts an operation whose answer the caller reads. What fails before the first byte fails here.
func (p *Provider) answer(ctx context.Context, id string, request guest.Request) (io.ReadCloser, error) {
	op, err := p.files(ctx, id, request)
	if err != nil {
		return nil, err
	}
	r := &reader{op: op, first: make([]byte, firstRead)}
	n, err := op.demux.Read(r.first)
	r.first = r.first[:n]
	if err != nil && n == 0 {
		if err := op.outcome(err); err != nil {
			op.stop()
			op.close()
			return nil, err
		}
		r.over = true
	}
	return r, nil
}

const firstRead = 32 << 10

// reader is an operation's answer. Its end is io.EOF only when the operation succeeded.
type reader struct {
	op    *operation
	first []byte
	over  bool
	once  sync.Once
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if len(r.first) > 0 {
		n := copy(p, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	if r.over {
		return 0, io.EOF
	}
	n, err := r.op.demux.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	if failed := r.op.outcome(err); failed != nil {
		return 0, failed
	}
	r.over = true
	return 0, io.EOF
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.once.Do(func() {
		r.op.stop()
		r.op.close()
	})
	return nil
}

// WriteFile implements core.FileSystem.
func (p *Provider) WriteFile(ctx context.Context, id, path string, content io.Reader, opts core.WriteOptions) error {
	return p.body(ctx, id, guest.Request{
		Op: guest.OpWrite, Path: []byte(path), Mode: uint32(opts.Mode), Parents: opts.Parents, Append: opts.Append,
	}, content)
}

// Import implements core.FileSystem.
func (p *Provider) Import(ctx context.Context, id, dir string, archive io.Reader, opts core.ImportOptions) error {
	return p.body(ctx, id, guest.Request{Op: guest.OpImport, Path: []byte(dir), KeepOwner: opts.KeepOwner, Framed: true}, archive)
}

// body runs an operation that takes content. The body is framed, so the sandbox can tell its end from a break
// without an engine that passes on half-closed connections.
func (p *Provider) body(ctx context.Context, id string, request guest.Request, content io.Reader) error {
	op, err := p.files(ctx, id, request)
	if err != nil {
		return err
	}
	// The operation may end before it took all; then the report says why and sending fails.
	result := make(chan error, 1)
	go func() { result <- op.finish(io.Discard) }()
	source := &sourceReader{r: content}
	w := guest.NewBodyWriter(op.conn.Conn)
	_, err = w.ReadFrom(source)
	if err == nil {
		err = w.Close()
	}
	if source.err != nil || ctx.Err() != nil {
		// Half a body: the sandbox sees the end of the connection and undoes what it did.
		op.close()
		late := <-result
		_ = late
		if ctx.Err() != nil {
			return core.Wrap("docker."+op.op, op.name, ctx.Err())
		}
		return core.Wrap("docker."+op.op, op.name, source.err)
	}
	if failed := <-result; failed != nil {
		return failed
	}
	return classify(ctx, op.op, op.name, err)
}

// sourceReader remembers a failure of the source, to tell it from one of the way.
type sourceReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
