package modal

import (
	"context"
	"errors"
	"io"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
)

// inputBlock is how much input one message carries at most, in bytes. While one is under way the
// next is read: two of them are all that is held in memory.
const inputBlock = 2 << 20

// feed passes input on and then its end. Each message says where it belongs, so that one whose answer was lost
// is sent again and counts once.
func (c *process) feed(ctx context.Context, input io.Reader) {
	var offset uint64
	if input != nil {
		blocks := make(chan []byte)
		var readErr error
		go func() {
			defer close(blocks)
			readErr = readBlocks(ctx, input, blocks)
		}()
		for block := range blocks {
			if err := c.write(ctx, offset, block, false); err != nil {
				go func() {
					for range blocks {
					}
				}()
				return
			}
			offset += uint64(len(block))
		}
		// Input that broke off is no end of input: the command must not take it for whole.
		if readErr != nil || ctx.Err() != nil {
			_ = c.Signal(ctx, sigHup)
			return
		}
	}
	_ = c.write(ctx, offset, nil, true)
}

// readBlocks reads what there is, so that a person's keys are sent at once and a file in large pieces.
func readBlocks(ctx context.Context, input io.Reader, blocks chan<- []byte) error {
	for {
		block := make([]byte, inputBlock)
		n, err := readSome(input, block)
		if n > 0 {
			select {
			case blocks <- block[:n]:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readSome fills a block as far as full reads come.
func readSome(input io.Reader, block []byte) (int, error) {
	const full = 4 << 10
	n := 0
	for n < len(block) {
		got, err := input.Read(block[n:])
		n += got
		if err != nil || got < full {
			return n, err
		}
	}
	return n, nil
}

func (c *process) write(ctx context.Context, offset uint64, data []byte, eof bool) error {
	request := pb.TaskExecStdinWriteRequest_builder{TaskId: c.router.task, ExecId: c.id, Offset: offset, Data: data, Eof: eof}.Build()
	_, err := call(ctx, c.router, func(ctx context.Context) (*pb.TaskExecStdinWriteResponse, error) {
		return c.router.stub.TaskExecStdinWrite(ctx, request)
	})
	return err
}
