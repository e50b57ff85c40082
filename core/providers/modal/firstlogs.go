package modal

import (
	"context"
	"errors"
	"io"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

// firstLogs reads the output of entry commands of sandboxes of the first generation. The control plane keeps it in
// entries with ids. A broken connection resumes after the last id.
type firstLogs struct {
	raw pb.ModalClientClient
	id  string
}

// logCall is the longest wait of one call for output, in seconds.
const logCall = 55

// tail reads one stream until its end, or until no output has come for the time silence.
func (f firstLogs) tail(ctx context.Context, stream core.Stream, silence time.Duration, items chan<- logItem) {
	last := ""
	delay, tries := firstDelay, 0
	for {
		before := last
		over, err := f.read(ctx, stream, silence, &last, items)
		if over || ctx.Err() != nil {
			return
		}
		if last != before || err == nil {
			delay, tries = firstDelay, 0
		}
		if err == nil {
			continue // the call's timeout expired
		}
		if tries++; !passing(status.Code(err)) || tries > attempts {
			select {
			case items <- logItem{err: client.Classify("logs", f.id, err)}:
			case <-ctx.Done():
			}
			return
		}
		if sleep(ctx, delay) != nil {
			return
		}
		delay = min(2*delay, lastDelay)
	}
}

// read makes one call. over reports the end of the output or a long enough silence.
func (f firstLogs) read(
	ctx context.Context, stream core.Stream, silence time.Duration, last *string, items chan<- logItem,
) (over bool, err error) {
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fd := pb.FileDescriptor_FILE_DESCRIPTOR_STDOUT
	if stream == core.Stderr {
		fd = pb.FileDescriptor_FILE_DESCRIPTOR_STDERR
	}
	silent := newLull(silence, cancel)
	defer silent.stop()
	from, err := f.raw.SandboxGetLogs(
		ctx,
		pb.SandboxGetLogsRequest_builder{SandboxId: f.id, FileDescriptor: fd, Timeout: logCall, LastEntryId: *last}.Build(),
	)
	for err == nil {
		var batch *pb.TaskLogsBatch
		silent.wait()
		batch, err = from.Recv()
		enough := silent.came(sizeOf(batch))
		if err != nil {
			break
		}
		for _, entry := range batch.GetItems() {
			select {
			case items <- logItem{
				record: core.LogRecord{Time: fromUnix(entry.GetTimestamp()), Stream: stream, Data: []byte(entry.GetData())},
			}:
			case <-ctx.Done():
				return true, nil
			}
		}
		if batch.GetEntryId() != "" {
			*last = batch.GetEntryId()
		}
		if batch.GetEof() || enough {
			return true, nil
		}
	}
	switch {
	case ctx.Err() != nil && parent.Err() == nil:
		return true, nil // silent for long enough
	case errors.Is(err, io.EOF) || status.Code(err) == codes.DeadlineExceeded:
		return false, nil
	}
	return false, err
}

// sizeOf returns the size of a batch's output, in bytes.
func sizeOf(batch *pb.TaskLogsBatch) int {
	size := 0
	for _, entry := range batch.GetItems() {
		size += len(entry.GetData())
	}
	return size
}
