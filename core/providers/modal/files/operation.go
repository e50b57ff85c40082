package files

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// Process is a program in a sandbox.
type Process interface {
	core.Process
	// Cut reports, after Wait, that the output had no end: it may not be whole.
	Cut() bool
}

// Programs runs programs in sandboxes.
type Programs struct {
	// Start starts a program.
	Start func(ctx context.Context, id string, spec core.ExecSpec) (Process, error)
}

// Operation is one run of a program that reads or writes files. Its answer is on stdout, its error on stderr.
type Operation struct {
	process Process
	in      *io.PipeWriter // the body; a close marks its end
	out     *io.PipeReader // the answer
	// subject is the file or sandbox that errors name.
	op, subject string
	complaints  *limitedBuffer
	answers     bool // it has no body, and Answer reads its complete answer
	once        sync.Once
	exit        core.Exit
	err         error
}

// farewell is the time for a canceled program to end.
const farewell = 2 * time.Second

// killTime is the time limit for the kill.
const killTime = 10 * time.Second

// Operate starts a program. The caller sends the body with Send, reads the answer with All, and then calls Wait. When
// ctx ends, the program gets the end of its input, and reads of the answer fail.
func (p Programs) Operate(ctx context.Context, id, op, subject string, argv []string) (*Operation, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	o := &Operation{in: inW, out: outR, op: op, subject: subject, complaints: &limitedBuffer{}}
	started, err := p.Start(ctx, id, core.ExecSpec{
		Command: argv, Stdin: inR, Stdout: outW, Stderr: o.complaints, Workdir: "/",
	})
	if err != nil {
		return nil, err
	}
	o.process = started
	stop := context.AfterFunc(ctx, func() { _ = inW.Close(); _ = outR.CloseWithError(ctx.Err()) })
	go func() {
		_, err := started.Wait(context.WithoutCancel(ctx))
		stop()
		_ = inR.CloseWithError(io.ErrClosedPipe)
		_ = outW.CloseWithError(err)
	}()
	return o, nil
}

// Wait ends the operation and discards the rest of the answer. The error is a failure of the connection. The program's
// own failure is in the exit and in Complaints. A second call returns the same results.
func (o *Operation) Wait(ctx context.Context) (core.Exit, error) {
	o.once.Do(func() {
		_ = o.in.Close()
		// This copy ends with the program, which closes the pipe.
		go func() { _, _ = io.Copy(io.Discard, o.out) }()
		o.exit, o.err = o.process.Wait(ctx)
		if ctx.Err() != nil {
			o.abandon(context.WithoutCancel(ctx))
			// Do not use the answer to an incomplete input.
			o.err = core.Wrap("modal."+o.op, o.subject, ctx.Err())
		}
		_ = o.process.Close()
		if o.err == nil && o.process.Cut() {
			o.err = core.Errorf(core.KindUnavailable, "modal."+o.op, o.subject,
				"the answer has no end mark and may be incomplete").WithHint("try again")
		}
	})
	return o.exit, o.err
}

// abandon ends the program after the caller's context has ended. A program with a body gets the end of its input and
// has a moment to clean up. Others, such as rm, would continue, so abandon kills them at once.
func (o *Operation) abandon(ctx context.Context) {
	if !o.answers {
		last, cancel := context.WithTimeout(ctx, farewell)
		defer cancel()
		if _, err := o.process.Wait(last); err == nil {
			return
		}
	}
	last, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	// The program may have just ended, and an image without a shell has no kill.
	_ = o.process.Signal(last, int(syscall.SIGKILL))
}

// Answer runs a program without a body to its end and returns its answer.
func (p Programs) Answer(
	ctx context.Context, id, op, subject string, argv []string, verdict Verdict,
) ([]byte, error) {
	o, err := p.Operate(ctx, id, op, subject, argv)
	if err != nil {
		return nil, err
	}
	o.answers = true
	_ = o.in.Close()
	text, readErr := o.All()
	if errors.Is(readErr, core.KindExhausted) {
		return nil, core.Wrap("modal."+op, subject, readErr)
	}
	if err := o.end(ctx, verdict); err != nil {
		return nil, err
	}
	return text, core.Wrap("modal."+op, subject, readErr)
}

// maxAnswer is the size limit of a program's answer, in bytes. Root in the sandbox controls the answer.
const maxAnswer = guest.MaxListing

// All reads the answer. An answer that is too long is KindExhausted and ends the operation.
func (o *Operation) All() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(o.out, maxAnswer+1))
	if len(text) > maxAnswer {
		err = core.Errorf(core.KindExhausted, "modal."+o.op, o.subject,
			"the sandbox's answer has more than %s", core.Bytes(maxAnswer))
		_ = o.out.CloseWithError(err)
		_ = o.process.Close()
		return nil, err
	}
	return text, err
}

// Verdict returns the error that a program's exit and stderr mean, or nil.
type Verdict func(op, subject string, exit core.Exit, complaints []byte) error

// end waits for the operation and returns its verdict.
func (o *Operation) end(ctx context.Context, verdict Verdict) error {
	exit, err := o.Wait(ctx)
	if err != nil {
		return err
	}
	return verdict(o.op, o.subject, exit, o.complaints.text)
}

// Complaints returns the beginning of the program's stderr.
func (o *Operation) Complaints() string { return string(o.complaints.text) }

// Send writes the body and its end. The program also gets the end after a failure, but then its result is not used.
// When ctx ends, Send returns nil while body may still wait for its content, and Wait returns the error.
func (o *Operation) Send(ctx context.Context, body func(io.Writer) error) error {
	sent := make(chan error, 1)
	go func() {
		err := body(o.in)
		_ = o.in.Close()
		// A broken pipe is the operation's own failure, which Wait returns.
		if errors.Is(err, io.ErrClosedPipe) {
			err = nil
		}
		sent <- err
	}()
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return nil
	}
}

// limitedBuffer keeps the first 64 KiB of its input.
type limitedBuffer struct{ text []byte }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := 64<<10 - len(b.text); room > 0 {
		b.text = append(b.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}
