package guest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Transport starts sb-guest in a provider's sandboxes.
type Transport interface {
	// Operate starts one file operation. When ctx ends, also after Operate has returned, reads and Close return soon,
	// whatever the sandbox does.
	Operate(ctx context.Context, id string, request Request) (Operation, error)
}

// Operation is a file operation in progress. Read returns its answer; its only error is io.EOF, whatever the outcome.
// Write adds to the body. An error of Write only means that the body no longer has a reader.
type Operation interface {
	io.ReadWriter
	// CloseWrite ends the body.
	CloseWrite() error
	// Break breaks the body off: sb-guest undoes its unfinished work. Break may be called more than once and while another
	// goroutine writes.
	Break()
	// Close discards unread and unsent data, waits for the operation's end and returns its error. It may be called more
	// than once and while another goroutine writes.
	Close() error
}

// Files implements core.FileSystem by sb-guest in the sandbox. Providers embed it.
type Files struct {
	provider  string
	transport Transport
}

var _ core.FileSystem = Files{}

// NewFiles returns the file system of a provider's sandboxes. Names of operations in errors begin with the provider's
// name.
func NewFiles(provider string, transport Transport) Files {
	return Files{provider: provider, transport: transport}
}

// answerBuffer is the size of a read from an answer, for callers that read little at a time.
const answerBuffer = 64 << 10

// Stat implements core.FileSystem.
func (f Files) Stat(ctx context.Context, id, path string) (core.FileInfo, error) {
	return ask(ctx, f, id, Request{Op: OpStat, Path: []byte(path)}, func(r io.Reader) (core.FileInfo, error) {
		return DecodeStat(r, path)
	})
}

// ReadDir implements core.FileSystem.
func (f Files) ReadDir(ctx context.Context, id, path string) ([]core.FileInfo, error) {
	return ask(ctx, f, id, Request{Op: OpReadDir, Path: []byte(path)}, func(r io.Reader) ([]core.FileInfo, error) {
		return DecodeListing(r, path)
	})
}

// Mkdir implements core.FileSystem.
func (f Files) Mkdir(ctx context.Context, id, path string, parents bool) error {
	_, err := ask(ctx, f, id, Request{Op: OpMkdir, Path: []byte(path), Parents: parents}, DecodeNothing)
	return err
}

// Remove implements core.FileSystem.
func (f Files) Remove(ctx context.Context, id, path string, recursive bool) error {
	_, err := ask(ctx, f, id, Request{Op: OpRemove, Path: []byte(path), Recursive: recursive}, DecodeNothing)
	return err
}

// ask runs an operation without a body and decodes its answer. An answer that is too long ends the operation.
func ask[T any](
	ctx context.Context, f Files, id string, request Request, decode func(io.Reader) (T, error),
) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var none T
	op, err := f.transport.Operate(ctx, id, request)
	if err != nil {
		return none, err
	}
	_ = op.CloseWrite()
	answer, decodeErr := decode(op)
	if errors.Is(decodeErr, errTooLong) {
		cancel() // sb-guest may continue without limit
	}
	if err := op.Close(); err != nil && !errors.Is(decodeErr, errTooLong) {
		return none, err
	}
	if decodeErr != nil {
		return none, core.Wrap(f.provider+"."+string(request.Op), string(request.Path), decodeErr)
	}
	return answer, nil
}

// ReadFile implements core.FileSystem.
func (f Files) ReadFile(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return f.stream(ctx, id, Request{Op: OpRead, Path: []byte(path)})
}

// Export implements core.FileSystem.
func (f Files) Export(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return f.stream(ctx, id, Request{Op: OpExport, Path: []byte(path)})
}

// stream returns the answer of an operation, after its first bytes or its failure.
func (f Files) stream(ctx context.Context, id string, request Request) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	op, err := f.transport.Operate(ctx, id, request)
	if err != nil {
		cancel()
		return nil, err
	}
	_ = op.CloseWrite()
	a := &answer{op: op, cancel: cancel, buffered: bufio.NewReaderSize(op, answerBuffer)}
	if _, err := a.buffered.Peek(1); err != nil {
		if err := a.finish(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// answer is complete only if its operation has succeeded; it then ends with io.EOF.
type answer struct {
	op       Operation
	cancel   context.CancelFunc
	buffered *bufio.Reader
	once     sync.Once
	err      error
}

func (a *answer) finish() error {
	a.once.Do(func() {
		a.err = a.op.Close()
		a.cancel()
	})
	return a.err
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.buffered.Read(p)
	if n > 0 || err == nil {
		return n, nil
	}
	if err := a.finish(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// WriteTo implements io.WriterTo, in the way that suits the transport's end and w best.
func (a *answer) WriteTo(w io.Writer) (int64, error) {
	n, err := a.buffered.WriteTo(w)
	if err != nil {
		return n, err
	}
	return n, a.finish()
}

// Close discards the unread answer.
func (a *answer) Close() error {
	a.cancel()
	_ = a.finish()
	return nil
}

// WriteFile implements core.FileSystem.
func (f Files) WriteFile(ctx context.Context, id, path string, content io.Reader, opts core.WriteOptions) error {
	return f.send(
		ctx, id,
		Request{Op: OpWrite, Path: []byte(path), Mode: uint32(opts.Mode.Perm()), Parents: opts.Parents, Append: opts.Append},
		content,
	)
}

// Import implements core.FileSystem.
func (f Files) Import(ctx context.Context, id, dir string, archive io.Reader, opts core.ImportOptions) error {
	return f.send(
		ctx, id,
		Request{
			Op: OpImport, Path: []byte(dir), KeepOwner: opts.KeepOwner, DirectoryModes: opts.DirectoryModes, Framed: true,
		},
		archive,
	)
}

const (
	// patience is how long a read of unused content may block, because a terminal or a pipe may never return.
	patience = time.Second
	// breakLimit is how long sb-guest may take to remove its unfinished work, after the content has failed or the
	// caller has canceled.
	breakLimit = 5 * time.Second
)

// errLeft reports a body that its reader did not read to the end.
var errLeft = errors.New("sb-guest ended before it received all data")

// send runs an operation with content as its body. It returns the operation's error, or content's own error if sb-guest
// only saw the body break off.
//
// After the operation has ended, send does not wait for content that blocks. If content fails or ctx ends, send waits
// for breakLimit at most until sb-guest has removed its unfinished work.
func (f Files) send(ctx context.Context, id string, request Request, content io.Reader) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx by breakLimit
	defer end()
	starting := context.AfterFunc(ctx, end)
	op, err := f.transport.Operate(life, id, request)
	starting()
	if err != nil {
		if ctx.Err() != nil {
			err = core.Wrap(f.provider+"."+string(request.Op), string(request.Path), ctx.Err())
		}
		return err
	}
	// The operation may end before it has read the whole body; the rest stays unused.
	result := make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, op)
		result <- op.Close()
	}()
	body := NewBodyWriter(op)
	giveUp := func() {
		time.AfterFunc(breakLimit, end)
		// Break in the stream, so that sb-guest's report of the removal comes back.
		if body.Break() != nil {
			op.Break()
		}
	}
	defer context.AfterFunc(ctx, giveUp)()
	sent := make(chan sending, 1)
	go func() { sent <- sendBody(op, body, content, giveUp) }()
	var outcome sending
	var failed error
	select {
	case outcome = <-sent:
		failed = <-result
	case failed = <-result:
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case outcome = <-sent:
		case <-ctx.Done():
		case <-timer.C:
			outcome.err = errLeft
		}
	}
	switch {
	case ctx.Err() != nil:
		return core.Wrap(f.provider+"."+string(request.Op), string(request.Path), ctx.Err())
	case outcome.source != nil:
		return core.Wrap(f.provider+"."+string(request.Op), string(request.Path), outcome.source)
	case failed != nil:
		return failed
	}
	return core.Wrap(f.provider+"."+string(request.Op), string(request.Path), outcome.err)
}

// sending is the result of sending a body: the failure, and the content's own failure.
type sending struct{ err, source error }

// sendBody sends content as the body. It calls giveUp if content fails.
func sendBody(op Operation, body *BodyWriter, content io.Reader, giveUp func()) sending {
	from := &source{r: content}
	_, err := body.ReadFrom(from)
	if err == nil {
		err = body.Close()
	}
	switch {
	case err == nil:
		_ = op.CloseWrite() // the operation had its body, and may have ended and closed it already
	case from.err != nil:
		giveUp()
	}
	return sending{err: err, source: from.err}
}

// source records a failure of the content, to distinguish it from a failure of the transport.
type source struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
