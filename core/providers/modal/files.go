package modal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/guest"
)

// simple runs an operation without a body and returns its answer.
func (p *Provider) simple(ctx context.Context, id string, request guest.Request) ([]byte, error) {
	op, err := p.guest(ctx, id, request)
	if err != nil {
		return nil, err
	}
	_ = op.in.Close()
	answer, readErr := io.ReadAll(op.out)
	if err := op.wait(ctx); err != nil {
		return nil, err
	}
	return answer, core.Wrap("modal.files", string(request.Path), readErr)
}

// Stat implements core.FileSystem.
func (p *Provider) Stat(ctx context.Context, id, path string) (core.FileInfo, error) {
	answer, err := p.simple(ctx, id, guest.Request{Op: guest.OpStat, Path: []byte(path)})
	if err != nil {
		return core.FileInfo{}, err
	}
	infos, err := guest.DecodeEntries(bytes.NewReader(answer))
	if err == nil && len(infos) != 1 {
		err = core.Errorf(core.KindInternal, "modal.stat", path, "sb-guest answered %d entries", len(infos))
	}
	if err != nil {
		return core.FileInfo{}, err
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

// answer returns the answer of an operation as a stream, once there is some of it or its failure.
func (p *Provider) answer(ctx context.Context, id string, request guest.Request) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	op, err := p.guest(ctx, id, request)
	if err != nil {
		cancel()
		return nil, err
	}
	_ = op.in.Close()
	stream := &answerStream{ctx: ctx, cancel: cancel, op: op, buffered: bufio.NewReaderSize(op.out, 64<<10)}
	if _, err := stream.buffered.Peek(1); err != nil {
		if err := op.wait(ctx); err != nil {
			cancel()
			return nil, err
		}
	}
	return stream, nil
}

// answerStream is complete only when the operation has succeeded: its end is then io.EOF.
type answerStream struct {
	ctx      context.Context //nolint:containedctx // a stream lives as long as the call that opened it
	cancel   context.CancelFunc
	op       *operation
	buffered *bufio.Reader
}

func (s *answerStream) Read(b []byte) (int, error) {
	n, err := s.buffered.Read(b)
	if n > 0 || err == nil {
		return n, nil
	}
	if err := s.op.wait(s.ctx); err != nil {
		return 0, err
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	return 0, io.EOF
}

// Close gives up what was not read.
func (s *answerStream) Close() error {
	s.cancel()
	_ = s.op.process.Close()
	_ = s.op.wait(s.ctx)
	return nil
}

// WriteFile implements core.FileSystem.
func (p *Provider) WriteFile(ctx context.Context, id, path string, content io.Reader, opts core.WriteOptions) error {
	request := guest.Request{Op: guest.OpWrite, Path: []byte(path), Mode: uint32(opts.Mode.Perm()), Parents: opts.Parents, Append: opts.Append}
	return p.send(ctx, id, request, func(to io.Writer) error {
		body := guest.NewBodyWriter(to)
		if _, err := body.ReadFrom(content); err != nil {
			return err
		}
		return body.Close()
	})
}

// Import implements core.FileSystem.
func (p *Provider) Import(ctx context.Context, id, dir string, archive io.Reader, opts core.ImportOptions) error {
	request := guest.Request{Op: guest.OpImport, Path: []byte(dir), KeepOwner: opts.KeepOwner}
	return p.send(ctx, id, request, func(to io.Writer) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{archive}, make([]byte, 1<<20))
		return err
	})
}

// send runs an operation with a body. The error is the operation's; the body's own
// when sb-guest only saw it break off.
func (p *Provider) send(ctx context.Context, id string, request guest.Request, body func(io.Writer) error) error {
	op, err := p.guest(ctx, id, request)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(op.in, 256<<10)
	bodyErr := body(buffered)
	if bodyErr == nil {
		bodyErr = buffered.Flush()
	}
	_ = op.in.Close()
	err = op.wait(ctx)
	// A pipe that broke is the operation's failure seen from this end.
	if bodyErr != nil && !errors.Is(bodyErr, io.ErrClosedPipe) {
		return core.Wrap("modal."+string(request.Op), string(request.Path), bodyErr)
	}
	return err
}
