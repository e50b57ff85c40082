package modal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// quiet is how long a stream of output that is not followed may be silent before what came is all there is.
const quiet = 500 * time.Millisecond

// Logs implements core.LogReader: what the entry command wrote, or a command by its id. Modal keeps the bytes but
// not when they came, so a record's time is when it was read, and times cannot be asked for.
func (p *Provider) Logs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		if !opts.Since.IsZero() || !opts.Until.IsZero() {
			yield(core.LogRecord{}, core.Errorf(core.KindUnsupported, "modal.logs", id, "Modal does not say when a sandbox wrote what").
				WithHint("leave --since and --until out"))
			return
		}
		sb, err := p.Get(ctx, id)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		r, err := p.router(ctx, id, true)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		follow := opts.Follow || !sb.State.Live()
		records, stop := p.output(ctx, r, opts.Exec, follow)
		defer stop()
		if opts.Tail >= 0 && !opts.Follow {
			yieldTail(records, opts.Tail, yield)
			return
		}
		if opts.Tail >= 0 {
			// What is there already is cut to its end; what comes is followed.
			stop()
			past, stopPast := p.output(ctx, r, opts.Exec, !sb.State.Live())
			skip := tailOffset(past, opts.Tail)
			stopPast()
			records, stop = p.output(ctx, r, opts.Exec, true)
			defer stop()
			records = skipBytes(records, skip)
		}
		for item := range records {
			if !yield(item.record, item.err) || item.err != nil {
				return
			}
		}
	}
}

// output merges a command's two streams. Without follow it ends when both have been silent for a while.
func (p *Provider) output(ctx context.Context, r *router, exec string, follow bool) (iter.Seq[logItem], func()) {
	ctx, cancel := context.WithCancel(ctx)
	items := make(chan logItem)
	var readers sync.WaitGroup
	for _, stream := range []core.Stream{core.Stdout, core.Stderr} {
		readers.Go(func() { r.tailStream(ctx, exec, stream, follow, items) })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		readers.Wait()
		close(items)
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		for range items {
		}
		<-done
	})
	return func(yield func(logItem) bool) {
		for item := range items {
			if !yield(item) {
				return
			}
		}
	}, stop
}

type logItem struct {
	record core.LogRecord
	err    error
}

// tailStream reads one stream and goes on where a broken connection left off.
func (r *router) tailStream(ctx context.Context, exec string, stream core.Stream, follow bool, items chan<- logItem) {
	var offset uint64
	for p := r.patient(); ; {
		err := r.readStream(ctx, exec, stream, follow, &offset, items, p)
		if err == nil || ctx.Err() != nil {
			return
		}
		if err := p.again(ctx, err); err != nil {
			if ctx.Err() == nil {
				select {
				case items <- logItem{err: logError(r.sandbox, exec, err)}:
				case <-ctx.Done():
				}
			}
			return
		}
	}
}

func logError(id, exec string, err error) error {
	if exec != "" && status.Code(err) == codes.NotFound {
		return core.Errorf(core.KindNotFound, "modal.logs", exec, "the sandbox has no command %q", exec)
	}
	return classify("logs", id, err)
}

// readStream reads until the stream's end, or without follow until it is silent.
func (r *router) readStream(ctx context.Context, exec string, stream core.Stream, follow bool, offset *uint64, items chan<- logItem, p *patience) error {
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	receive, err := r.openOutput(ctx, exec, stream, *offset)
	if err != nil {
		return err
	}
	silent := time.AfterFunc(time.Hour, cancel)
	defer silent.Stop()
	for {
		if !follow {
			silent.Reset(quiet)
		}
		data, start, err := receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if ctx.Err() != nil && parent.Err() == nil {
				return nil // silent for long enough
			}
			return err
		}
		p.progress()
		*offset = start + uint64(len(data))
		select {
		case items <- logItem{record: core.LogRecord{Time: time.Now().UTC(), Stream: stream, Data: data}}:
		case <-ctx.Done():
			return nil
		}
	}
}

// openOutput opens a stream of output at an offset. What it returns yields the data and where it begins.
func (r *router) openOutput(ctx context.Context, exec string, stream core.Stream, offset uint64) (func() ([]byte, uint64, error), error) {
	if exec == "" {
		fd := pb.SandboxStdioFileDescriptor_SANDBOX_STDIO_FILE_DESCRIPTOR_STDOUT
		if stream == core.Stderr {
			fd = pb.SandboxStdioFileDescriptor_SANDBOX_STDIO_FILE_DESCRIPTOR_STDERR
		}
		from, err := r.stub.SandboxStdioReadV2(r.authorized(ctx), pb.SandboxStdioReadV2Request_builder{TaskId: r.task, Offset: offset, FileDescriptor: fd}.Build())
		return func() ([]byte, uint64, error) {
			part, err := from.Recv()
			return part.GetData(), part.GetStartingOffset(), err
		}, err
	}
	fd := pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
	if stream == core.Stderr {
		fd = pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR
	}
	from, err := r.stub.TaskExecStdioRead(r.authorized(ctx), pb.TaskExecStdioReadRequest_builder{TaskId: r.task, ExecId: exec, Offset: offset, FileDescriptor: fd}.Build())
	return func() ([]byte, uint64, error) {
		part, err := from.Recv()
		start := offset
		offset += uint64(len(part.GetData()))
		return part.GetData(), start, err
	}, err
}

// yieldTail yields the last lines of what there is.
func yieldTail(records iter.Seq[logItem], lines int, yield func(core.LogRecord, error) bool) {
	var kept []core.LogRecord
	for item := range records {
		if item.err != nil {
			yield(core.LogRecord{}, item.err)
			return
		}
		for line := range bytes.Lines(item.record.Data) {
			if n := len(kept); n > 0 && kept[n-1].Stream == item.record.Stream && !bytes.HasSuffix(kept[n-1].Data, []byte("\n")) {
				kept[n-1].Data = append(slices.Clone(kept[n-1].Data), line...)
				continue
			}
			kept = append(kept, core.LogRecord{Time: item.record.Time, Stream: item.record.Stream, Data: line})
		}
		kept = kept[max(0, len(kept)-lines-1):]
	}
	for _, record := range kept[max(0, len(kept)-lines):] {
		if !yield(record, nil) {
			return
		}
	}
}

// tailOffset says how many bytes of each stream come before its last lines.
func tailOffset(records iter.Seq[logItem], lines int) map[core.Stream]int {
	type line struct {
		stream core.Stream
		size   int
	}
	var all []line
	total := map[core.Stream]int{}
	for item := range records {
		for text := range bytes.Lines(item.record.Data) {
			all = append(all, line{item.record.Stream, len(text)})
			total[item.record.Stream] += len(text)
		}
	}
	for _, kept := range all[max(0, len(all)-lines):] {
		total[kept.stream] -= kept.size
	}
	return total
}

// skipBytes leaves out the beginning of each stream.
func skipBytes(records iter.Seq[logItem], skip map[core.Stream]int) iter.Seq[logItem] {
	return func(yield func(logItem) bool) {
		for item := range records {
			n := min(skip[item.record.Stream], len(item.record.Data))
			skip[item.record.Stream] -= n
			item.record.Data = item.record.Data[n:]
			if (len(item.record.Data) > 0 || item.err != nil) && !yield(item) {
				return
			}
		}
	}
}
