package modal

import (
	"context"
	"errors"
	"io"
	"sync"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
)

// inputBlock is the most input in one message, in bytes. While a message is sent, one more block at most is read into
// memory.
const inputBlock = 2 << 20

// inbox holds input that was read and not yet sent. So keystrokes go out at once, and a file goes out in large pieces.
type inbox struct {
	mu      sync.Mutex
	changed chan struct{}
	held    []byte
	err     error // why the input ended; io.EOF at its regular end
}

func newInbox() *inbox { return &inbox{changed: make(chan struct{})} }

// wake wakes the other side. The caller holds mu.
func (b *inbox) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// fill reads the input until its end or an error. A read may block forever.
func (b *inbox) fill(ctx context.Context, input io.Reader) {
	piece := make([]byte, 256<<10)
	for {
		n, err := input.Read(piece)
		b.mu.Lock()
		for len(b.held) > 0 && len(b.held)+n > inputBlock && ctx.Err() == nil {
			changed := b.changed
			b.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
			}
			b.mu.Lock()
		}
		b.held = append(b.held, piece[:n]...)
		b.err = err
		if ctx.Err() != nil && err == nil {
			b.err = ctx.Err()
		}
		over := b.err != nil
		b.wake()
		b.mu.Unlock()
		if over {
			return
		}
	}
}

// take waits for input and returns all of it. It returns the error once no input is left.
func (b *inbox) take(ctx context.Context) ([]byte, error) {
	for {
		b.mu.Lock()
		held, err, changed := b.held, b.err, b.changed
		if len(held) > 0 {
			b.held = nil
			b.wake()
			b.mu.Unlock()
			return held, nil
		}
		b.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// feed sends the input and then its end. Each message has an offset, so that a retry after a lost answer counts once.
func (c *process) feed(ctx context.Context, input io.Reader) {
	offset := c.fed
	if input != nil {
		box := newInbox()
		go box.fill(ctx, input)
		for {
			block, err := box.take(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				// A failed read is no end of input: the command must not treat the input as complete.
				if ctx.Err() == nil {
					c.inputBroke.Store(true)
					_ = c.Signal(ctx, sigHup)
				}
				return
			}
			if err := c.write(ctx, offset, block, false); err != nil {
				return
			}
			offset += uint64(len(block))
		}
	}
	_ = c.write(ctx, offset, nil, true)
}

func (c *process) write(ctx context.Context, offset uint64, data []byte, eof bool) error {
	request := pb.TaskExecStdinWriteRequest_builder{
		TaskId: c.router.task, ExecId: c.id, Offset: offset, Data: data, Eof: eof,
	}.Build()
	_, err := call(ctx, c.router, func(ctx context.Context) (*pb.TaskExecStdinWriteResponse, error) {
		return c.router.stub.TaskExecStdinWrite(ctx, request)
	})
	return err
}
