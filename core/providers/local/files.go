//go:build linux

package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/guest"
	"github.com/seed-0724f904/sb/core/providers/local/store"
	"github.com/seed-0724f904/sb/core/providers/local/wire"
)

// fileBuffer is what the pipes of a file operation hold.
const fileBuffer = 1 << 20

// operation is one run of sb-guest in a sandbox. Its streams are pipes between this
// process and the sandbox's kernel: no byte passes through the supervisor.
type operation struct {
	in   *os.File // the request's body
	out  *os.File // the answer
	done chan struct{}
	err  error
}

// guest starts a file operation. The caller reads out to its end, closes in when it has
// sent all, and then calls wait.
func (p *Provider) guest(ctx context.Context, id string, request guest.Request) (*operation, error) {
	if !store.ValidID(id) {
		return nil, notFound(id)
	}
	argv, err := request.Argv()
	if err != nil {
		return nil, core.Wrap("local.files", string(request.Path), err)
	}
	var pipes filePipes
	inR, inW := pipes.make()
	outR, outW := pipes.make()
	reportR, reportW := pipes.make()
	if pipes.err != nil {
		pipes.closeAll()
		return nil, core.Errorf(core.KindExhausted, "local.files", "", "no descriptors are left: %w", pipes.err)
	}
	op := &operation{in: inW, out: outR, done: make(chan struct{})}
	go func() {
		defer close(op.done)
		report := make(chan []byte, 1)
		go func() {
			text, _ := io.ReadAll(io.LimitReader(reportR, guest.MaxReport))
			report <- text
		}()
		reply, err := p.control(ctx, id, &wire.Control{Verb: wire.VerbFiles, Argv: argv}, inR, outW, reportW)
		// Until the call was answered these copies kept the pipes open on both sides.
		_ = inR.Close()
		_ = outW.Close()
		_ = reportW.Close()
		text := <-report
		_ = reportR.Close()
		if err != nil {
			op.err = err
			return
		}
		op.err = outcome(string(request.Op), reply.ExitCode, text)
	}()
	return op, nil
}

// outcome is what sb-guest's report and exit code say.
func outcome(op string, code int, text []byte) error {
	report, err := guest.DecodeReport(text)
	if err != nil {
		return err
	}
	if err := report.Err("local." + op); err != nil {
		return err
	}
	if code != 0 {
		return core.Errorf(core.KindInternal, "local."+op, "", "sb-guest ended with code %d", code)
	}
	return nil
}

// wait ends the operation: what is unread is thrown away.
func (o *operation) wait() error {
	_ = o.in.Close()
	_ = o.out.Close()
	<-o.done
	return o.err
}

// filePipes makes pipes and remembers them for a failure.
type filePipes struct {
	all []*os.File
	err error
}

func (p *filePipes) make() (r, w *os.File) {
	if p.err != nil {
		return nil, nil
	}
	r, w, p.err = os.Pipe()
	if p.err != nil {
		return nil, nil
	}
	if raw, err := r.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, fileBuffer) })
	}
	p.all = append(p.all, r, w)
	return r, w
}

func (p *filePipes) closeAll() {
	for _, f := range p.all {
		_ = f.Close()
	}
}

// simple runs an operation without a body and returns its answer.
func (p *Provider) simple(ctx context.Context, id string, request guest.Request) ([]byte, error) {
	op, err := p.guest(ctx, id, request)
	if err != nil {
		return nil, err
	}
	_ = op.in.Close()
	answer, readErr := io.ReadAll(op.out)
	if err := op.wait(); err != nil {
		return nil, err
	}
	return answer, core.Wrap("local.files", string(request.Path), readErr)
}

// Stat implements core.FileSystem.
func (p *Provider) Stat(ctx context.Context, id, path string) (core.FileInfo, error) {
	answer, err := p.simple(ctx, id, guest.Request{Op: guest.OpStat, Path: []byte(path)})
	if err != nil {
		return core.FileInfo{}, err
	}
	infos, err := guest.DecodeEntries(bytes.NewReader(answer))
	if err != nil || len(infos) != 1 {
		return core.FileInfo{}, errors.Join(err, core.Errorf(core.KindInternal, "local.stat", path, "sb-guest answered %d entries", len(infos)))
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
	stream := &answerStream{op: op, cancel: cancel, buffered: bufio.NewReaderSize(op.out, 64<<10)}
	if _, err := stream.buffered.Peek(1); err != nil {
		if err := stream.finish(); err != nil {
			cancel()
			return nil, err
		}
	}
	return stream, nil
}

// answerStream is complete only when the operation has succeeded: its end is then io.EOF.
type answerStream struct {
	op       *operation
	cancel   context.CancelFunc
	buffered *bufio.Reader
	once     sync.Once
	err      error
}

func (s *answerStream) finish() error {
	s.once.Do(func() { s.err = s.op.wait() })
	return s.err
}

func (s *answerStream) Read(b []byte) (int, error) {
	n, err := s.buffered.Read(b)
	if n > 0 || err == nil {
		return n, nil
	}
	if err := s.finish(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// WriteTo copies with large reads.
func (s *answerStream) WriteTo(w io.Writer) (int64, error) {
	n, err := s.buffered.WriteTo(w)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return n, err
	}
	return n, s.finish()
}

// Close gives up what was not read.
func (s *answerStream) Close() error {
	_ = s.op.out.Close()
	s.cancel()
	_ = s.finish()
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
		_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{archive}, make([]byte, fileBuffer))
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
	bodyErr := body(op.in)
	_ = op.in.Close()
	_, _ = io.Copy(io.Discard, op.out)
	err = op.wait()
	// A pipe that broke is the operation's failure seen from this end.
	if bodyErr != nil && !errors.Is(bodyErr, unix.EPIPE) {
		return core.Wrap("local."+string(request.Op), string(request.Path), bodyErr)
	}
	return err
}
