//go:build linux

package local

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// fileBuffer is the capacity of a file operation's pipes in bytes.
const fileBuffer = 1 << 20

// reportGrace bounds the wait for a report after sb-guest has ended.
const reportGrace = time.Second

// files is guest.Transport.
type files struct{ p *Provider }

// operation is one run of sb-guest in a sandbox. Its streams are pipes between this process and the sandbox's kernel.
// No byte passes through the supervisor.
type operation struct {
	in   *os.File // the request's body
	out  *os.File // the answer
	stop func() bool
	done chan struct{}
	err  error
}

// Operate implements guest.Transport.
func (f files) Operate(ctx context.Context, id string, request guest.Request) (guest.Operation, error) {
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
	// Processes in the sandbox may keep the other ends open for any time.
	op.stop = context.AfterFunc(ctx, op.closePipes)
	go func() {
		defer close(op.done)
		report := make(chan []byte, 1)
		go func() {
			text, _ := io.ReadAll(io.LimitReader(reportR, guest.MaxReport))
			report <- text
		}()
		reply, err := f.p.control(ctx, id, &wire.Request{Verb: wire.VerbFiles, File: argv}, inR, outW, reportW)
		// During the call these copies kept the pipes open on both sides.
		_ = inR.Close()
		_ = outW.Close()
		_ = reportW.Close()
		// sb-guest has ended, so its whole report has arrived.
		_ = reportR.SetReadDeadline(time.Now().Add(reportGrace))
		text := <-report
		_ = reportR.Close()
		if err == nil {
			err = outcome(string(request.Op), reply.Exit, text)
		}
		op.err = err
	}()
	return op, nil
}

// outcome returns the error in sb-guest's report or exit code.
func outcome(op string, exit *core.Exit, text []byte) error {
	report, err := guest.DecodeReport(text)
	if err != nil {
		return err
	}
	if err := report.Err("local." + op); err != nil {
		return err
	}
	if exit == nil || exit.Code != 0 {
		return core.Errorf(core.KindInternal, "local."+op, "", "sb-guest ended with %+v", exit)
	}
	return nil
}

// Read implements io.Reader.
func (o *operation) Read(b []byte) (int, error) {
	n, err := o.out.Read(b)
	if err != nil {
		err = io.EOF // Close returns the reason
	}
	return n, err
}

// WriteTo implements io.WriterTo, so that the kernel can copy between two descriptors.
func (o *operation) WriteTo(w io.Writer) (int64, error) {
	n, err := o.out.WriteTo(w)
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return n, err
}

// Write implements io.Writer.
func (o *operation) Write(b []byte) (int, error) { return o.in.Write(b) }

// CloseWrite implements guest.Operation.
func (o *operation) CloseWrite() error { return o.in.Close() }

// Break implements guest.Operation.
func (o *operation) Break() { _ = o.in.Close() }

func (o *operation) closePipes() {
	_ = o.in.Close()
	_ = o.out.Close()
}

// Close implements guest.Operation.
func (o *operation) Close() error {
	o.stop()
	o.closePipes()
	<-o.done
	return o.err
}

// filePipes makes pipes. It records them, to close them after a failure.
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
