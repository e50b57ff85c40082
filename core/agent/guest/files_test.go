package guest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// helper is a Transport whose operations run a function of this process.
type helper func(in io.Reader, out io.Writer) error

// job is one of them.
type job struct {
	answer *io.PipeReader
	body   *io.PipeWriter
	done   chan error
}

func (h helper) Operate(context.Context, string, Request) (Operation, error) {
	in, body := io.Pipe()
	answer, out := io.Pipe()
	j := &job{answer: answer, body: body, done: make(chan error, 1)}
	go func() {
		err := h(in, out)
		_ = in.Close()
		_ = out.Close()
		j.done <- err
	}()
	return j, nil
}

func (j *job) Read(p []byte) (int, error) {
	n, err := j.answer.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

func (j *job) Write(p []byte) (int, error) { return j.body.Write(p) }
func (j *job) CloseWrite() error           { return j.body.Close() }
func (j *job) Break()                      { _ = j.body.Close() }

func (j *job) Close() error {
	_ = j.answer.Close()
	_ = j.body.Close()
	select {
	case err := <-j.done:
		j.done <- err
		return err
	case <-time.After(time.Minute):
		return errors.New("the helper does not end")
	}
}

func TestFilesSendsWholeBodies(t *testing.T) {
	var got []byte
	files := NewFiles("test", helper(func(in io.Reader, _ io.Writer) (err error) {
		got, err = io.ReadAll(NewBodyReader(in))
		return err
	}))
	want := strings.Repeat("0123456789", 300_000)
	if err := files.WriteFile(t.Context(), "id", "/file", strings.NewReader(want), core.WriteOptions{}); err != nil ||
		string(got) != want {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
}

func TestFilesSourceBreaks(t *testing.T) {
	cause := errors.New("the source broke")
	var seen error
	files := NewFiles("test", helper(func(in io.Reader, _ io.Writer) error {
		_, seen = io.Copy(io.Discard, NewBodyReader(in))
		return seen
	}))
	source := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(cause))
	if err := files.WriteFile(t.Context(), "id", "/file", source, core.WriteOptions{}); !errors.Is(err, cause) {
		t.Errorf("the error is %v, want the source's", err)
	}
	if !errors.Is(seen, io.ErrUnexpectedEOF) {
		t.Errorf("sb-guest saw %v, want a body that ends early", seen)
	}
}

// An operation that fails early reports the reason, and the rest of the content is discarded.
func TestFilesOperationFailsEarly(t *testing.T) {
	full := core.Errorf(core.KindExhausted, "write", "/file", "no space left on device")
	files := NewFiles("test", helper(func(in io.Reader, _ io.Writer) error {
		_, _ = io.ReadFull(in, make([]byte, 10))
		return full
	}))
	endless := iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 10*ChunkSize)))
	if err := files.WriteFile(t.Context(), "id", "/file", endless, core.WriteOptions{}); !errors.Is(
		err, core.KindExhausted,
	) {
		t.Errorf("the error is %v, want the operation's", err)
	}
}

// A failed or canceled operation does not wait for content that blocks, as a terminal does.
func TestFilesContentBlocks(t *testing.T) {
	missing := core.Errorf(core.KindNotFound, "write", "/no/file", "no such file or directory")
	files := NewFiles("test", helper(func(io.Reader, io.Writer) error { return missing }))
	content, hold := io.Pipe()
	defer func() { _ = hold.Close() }()
	failed := make(chan error, 1)
	go func() { failed <- files.WriteFile(t.Context(), "id", "/no/file", content, core.WriteOptions{}) }()
	select {
	case err := <-failed:
		if !errors.Is(err, core.KindNotFound) {
			t.Errorf("the error is %v, want the operation's", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for its content")
	}
	var seen error
	files = NewFiles("test", helper(func(in io.Reader, _ io.Writer) error {
		_, seen = io.Copy(io.Discard, NewBodyReader(in))
		return seen
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { failed <- files.WriteFile(ctx, "id", "/file", content, core.WriteOptions{}) }()
	cancel()
	select {
	case err := <-failed:
		if !errors.Is(err, context.Canceled) || !errors.Is(seen, io.ErrUnexpectedEOF) {
			t.Errorf("the error is %v, and sb-guest saw %v: the body must break off", err, seen)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for its content although it was given up")
	}
}

// hasty is a Transport whose operations do not outlive their context.
type hasty struct{ helper }

func (h hasty) Operate(ctx context.Context, id string, request Request) (Operation, error) {
	op, err := h.helper.Operate(ctx, id, request)
	if err != nil {
		return nil, err
	}
	j, ok := op.(*job)
	if !ok {
		return nil, errors.New("another type of operation")
	}
	context.AfterFunc(ctx, func() { _ = j.answer.Close() })
	return hastyJob{j, ctx}, nil
}

type hastyJob struct {
	*job
	ctx context.Context
}

func (j hastyJob) Close() error {
	select {
	case err := <-j.done:
		j.done <- err
		return err
	case <-j.ctx.Done():
		return j.ctx.Err()
	}
}

// canceling is content that cancels its operation.
type canceling func()

func (c canceling) Read([]byte) (int, error) {
	c()
	return 0, context.Canceled
}

// A canceled operation returns after sb-guest has removed its unfinished work.
func TestFilesCanceledOperationIsUndone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan struct{})
	early := make(chan bool, 1)
	files := NewFiles("test", hasty{func(in io.Reader, _ io.Writer) error {
		_, err := io.Copy(io.Discard, NewBodyReader(in))
		select {
		case <-returned:
			early <- true
		case <-time.After(200 * time.Millisecond): // the removal
			early <- false
		}
		return err
	}})
	content := io.MultiReader(strings.NewReader("half"), canceling(cancel))
	err := files.WriteFile(ctx, "id", "/file", content, core.WriteOptions{})
	close(returned)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if <-early {
		t.Error("it returned before the removal")
	}
}

func TestFilesAnswers(t *testing.T) {
	text := strings.Repeat("answer ", 100_000)
	broken := core.Errorf(core.KindInternal, "read", "/file", "it was interrupted")
	for name, end := range map[string]error{"whole": nil, "interrupted": broken} {
		files := NewFiles("test", helper(func(_ io.Reader, out io.Writer) error {
			_, err := io.WriteString(out, text)
			return errors.Join(err, end)
		}))
		for how, read := range map[string]func(io.Reader) (string, error){
			"Read": func(r io.Reader) (string, error) {
				b, err := io.ReadAll(struct{ io.Reader }{r})
				return string(b), err
			},
			"WriteTo": func(r io.Reader) (string, error) {
				var b strings.Builder
				_, err := io.Copy(&b, r)
				return b.String(), err
			},
		} {
			r, err := files.ReadFile(t.Context(), "id", "/file")
			if err != nil {
				t.Fatal(err)
			}
			got, err := read(r)
			if got != text || !errors.Is(err, end) || (err == nil) != (end == nil) {
				t.Errorf("%s, %s: %d bytes and %v", name, how, len(got), err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		// Close does not wait for the rest of the content.
		r, err := files.ReadFile(t.Context(), "id", "/file")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	missing := core.Errorf(core.KindNotFound, "read", "/file", "no such file")
	files := NewFiles("test", helper(func(io.Reader, io.Writer) error { return missing }))
	if _, err := files.ReadFile(t.Context(), "id", "/file"); !errors.Is(err, core.KindNotFound) {
		t.Errorf("a failure before the first byte is %v", err)
	}
}
