package modal

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// operation is one run of a program in a sandbox that does something with files. Its answer is on stdout, its
// failure on stderr.
type operation struct {
	process *process
	in      *io.PipeWriter // the body; closing it is its end
	out     *io.PipeReader // the answer
	// subject names what it is about, in errors.
	op, subject string
	complaints  *limitedBuffer
	answers     bool // it has no body and its answer is read whole
	once        sync.Once
	exit        core.Exit
	err         error
}

// farewell is how long a program that is given up may take to end.
const farewell = 2 * time.Second

// killTime is how long killing it may take.
const killTime = 10 * time.Second

// operate starts a program. The caller closes in when it has sent all, reads out to its end, and then calls wait. When
// ctx ends the program gets the end of its input, and the answer breaks off.
func (p *Provider) operate(ctx context.Context, id, op, subject string, argv []string) (*operation, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	o := &operation{in: inW, out: outR, op: op, subject: subject, complaints: &limitedBuffer{}}
	started, err := p.start(ctx, id, core.ExecSpec{Command: argv, Stdin: inR, Stdout: outW, Stderr: o.complaints, Workdir: "/"})
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

// wait ends the operation: what is unread is thrown away. The error is one of the way to the sandbox, never the
// program's own, which is in exit and complaints. It answers the same each time.
func (o *operation) wait(ctx context.Context) (core.Exit, error) {
	o.once.Do(func() {
		_ = o.in.Close()
		// The pipe is closed when the program has ended, and with it this.
		go func() { _, _ = io.Copy(io.Discard, o.out) }()
		o.exit, o.err = o.process.Wait(ctx)
		if ctx.Err() != nil {
			o.abandon(context.WithoutCancel(ctx))
			// What it made of half an input is no answer.
			o.err = core.Wrap("modal."+o.op, o.subject, ctx.Err())
		}
		_ = o.process.Close()
		if o.err == nil && o.process.cut {
			o.err = core.Errorf(core.KindUnavailable, "modal."+o.op, o.subject, "the answer had no end, so it may not be whole").WithHint("try again")
		}
	})
	return o.exit, o.err
}

// abandon ends the program after ctx of the caller has ended. A program with a body sees the end of its input and has a moment to clean up;
// others, such as rm, do not notice that nobody waits, and are killed at once.
func (o *operation) abandon(ctx context.Context) {
	if !o.answers {
		last, cancel := context.WithTimeout(ctx, farewell)
		defer cancel()
		if _, err := o.process.Wait(last); err == nil {
			return
		}
	}
	last, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	// It may have ended meanwhile, and without a shell nothing can be killed.
	_ = o.process.Signal(last, sigKill)
}

// answer runs an operation without a body to its end and returns what it answered.
func (p *Provider) answer(ctx context.Context, id, op, subject string, argv []string, verdict verdict) ([]byte, error) {
	o, err := p.operate(ctx, id, op, subject, argv)
	if err != nil {
		return nil, err
	}
	o.answers = true
	_ = o.in.Close()
	text, readErr := o.all()
	if errors.Is(readErr, core.KindExhausted) {
		return nil, core.Wrap("modal."+op, subject, readErr)
	}
	if err := o.end(ctx, verdict); err != nil {
		return nil, err
	}
	return text, core.Wrap("modal."+op, subject, readErr)
}

// maxAnswer bounds what a program answers, in bytes. Who is root in the sandbox decides what that is.
const maxAnswer = guest.MaxListing

// all reads the answer. One that is too long is KindExhausted, and the operation is given up.
func (o *operation) all() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(o.out, maxAnswer+1))
	if len(text) > maxAnswer {
		err = core.Errorf(core.KindExhausted, "modal."+o.op, o.subject, "the sandbox's answer has more than %s", core.Bytes(maxAnswer))
		_ = o.out.CloseWithError(err)
		_ = o.process.Close()
		return nil, err
	}
	return text, err
}

// verdict says what a program's end means.
type verdict func(op, subject string, exit core.Exit, complaints []byte) error

// end waits for the operation and judges it.
func (o *operation) end(ctx context.Context, verdict verdict) error {
	exit, err := o.wait(ctx)
	if err != nil {
		return err
	}
	return verdict(o.op, o.subject, exit, o.complaints.text)
}

// send writes a body. When it breaks off the program gets its end all the same: what it made of it is not used then.
func (o *operation) send(body func(io.Writer) error) error {
	err := body(o.in)
	_ = o.in.Close()
	// A pipe that broke is the operation's failure seen from this end.
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
