package modal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// quiet is how long a stream of output that is not followed may be silent before what came is all there is, beside the
// time that the way to the sandbox takes.
const quiet = 500 * time.Millisecond

// Who writes all the time is never silent: when less than lullBytes came in lullTime that is not what was there before, but what comes now.
const (
	lullTime  = time.Second
	lullBytes = 32 << 10
)

// lull tells when a reading that is not to follow is over: when nothing came for so long, or so little that it is being written only now.
// The time that whoever takes the output needs does not count.
type lull struct {
	silence time.Duration
	timer   *time.Timer
	from    time.Time
	begun   bool
	waited  time.Duration
	bytes   int
}

// newLull calls end after a silence; stop releases it.
func newLull(silence time.Duration, end func()) *lull {
	return &lull{silence: silence, timer: time.AfterFunc(silence, end), from: time.Now()}
}

func (l *lull) stop() { l.timer.Stop() }

// wait begins to wait for output.
func (l *lull) wait() {
	l.timer.Reset(l.silence)
	l.from = time.Now()
}

// came ends a wait, and says whether it was for what is only being written.
func (l *lull) came(bytes int) (over bool) {
	l.timer.Stop()
	if l.silence == forever || !l.begun {
		l.begun = true
		return false
	}
	l.waited, l.bytes = l.waited+time.Since(l.from), l.bytes+bytes
	if l.waited < lullTime {
		return false
	}
	over = l.bytes < lullBytes
	l.waited, l.bytes = 0, 0
	return over
}

// forever is the patience of one who follows.
const forever = time.Duration(math.MaxInt64)

// Logs implements core.LogReader: what the entry command wrote, or a command by its id. Modal keeps a command's bytes without their
// times, so a record's time is when it was read; of the entry command it keeps both, and is asked for them when times are asked for.
func (p *Provider) Logs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	if !opts.Since.IsZero() || !opts.Until.IsZero() || opts.Times && opts.Exec == "" && !opts.Follow {
		return p.logsBetween(ctx, id, opts)
	}
	return func(yield func(core.LogRecord, error) bool) {
		var sb core.Sandbox
		var tail tailer
		begin := time.Now()
		err := together(
			func() (err error) { sb, err = p.Get(ctx, id); return err },
			func() (err error) { tail, err = p.tailer(ctx, id, opts.Exec); return err },
		)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		// What has ended has an end, too.
		enough := quiet + time.Since(begin)
		if !sb.State.Live() {
			enough = forever
		}
		silence := enough
		if opts.Follow {
			silence = forever
		}
		records, stop := output(ctx, tail, silence)
		defer stop()
		if opts.Tail >= 0 && !opts.Follow {
			yieldTail(records, opts.Tail, yield)
			return
		}
		if opts.Tail >= 0 {
			// What is there already is cut to its end; what comes is followed.
			stop()
			past, stopPast := output(ctx, tail, enough)
			skip := tailOffset(past, opts.Tail)
			stopPast()
			records, stop = output(ctx, tail, forever)
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

// tailer reads one stream of a command's output until its end, or until it has been silent for so long.
type tailer func(ctx context.Context, stream core.Stream, silence time.Duration, items chan<- logItem)

// tailer finds out how a command's output is read.
func (p *Provider) tailer(ctx context.Context, id, exec string) (tailer, error) {
	if exec == "" && firstGeneration(id) {
		_, raw, err := p.control(ctx, "logs")
		return firstLogs{raw, id}.tail, err
	}
	r, err := p.router(ctx, id, true)
	return func(ctx context.Context, stream core.Stream, silence time.Duration, items chan<- logItem) {
		r.tailStream(ctx, exec, stream, silence, items)
	}, err
}

// logsBetween reads what the entry command wrote in a time.
func (p *Provider) logsBetween(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		if opts.Follow || opts.Exec != "" {
			yield(core.LogRecord{}, core.Errorf(core.KindUnsupported, "modal.logs", id, "Modal knows times only of what the entry command has written so far").
				WithHint("leave --since and --until out, or --follow and the command's id"))
			return
		}
		records := func(each func(logItem) bool) {
			for entry, err := range p.entries(ctx, id, opts.Since, opts.Until) {
				if entry.Source == sdk.LogSourceSystem {
					continue
				}
				item := logItem{record: core.LogRecord{Time: entry.Timestamp.UTC(), Stream: core.Stdout, Data: []byte(entry.Message)}, err: classify("logs", id, err)}
				if entry.Source == sdk.LogSourceStderr {
					item.record.Stream = core.Stderr
				}
				if !each(item) || err != nil {
					return
				}
			}
		}
		if opts.Tail >= 0 {
			yieldTail(records, opts.Tail, yield)
			return
		}
		for item := range records {
			if !yield(item.record, item.err) {
				return
			}
		}
	}
}

// entries asks for the log of a time, oldest first.
func (p *Provider) entries(ctx context.Context, id string, since, until time.Time) iter.Seq2[sdk.LogEntry, error] {
	return func(yield func(sdk.LogEntry, error) bool) {
		sb, err := p.Get(ctx, id)
		if err != nil {
			yield(sdk.LogEntry{}, err)
			return
		}
		c, err := p.connect()
		if err != nil {
			yield(sdk.LogEntry{}, err)
			return
		}
		if since.IsZero() {
			since = sb.Created
		}
		if until.IsZero() {
			until = time.Now()
		}
		if !since.Before(until) {
			return
		}
		box, err := c.sdk.Sandboxes.FromID(ctx, id, nil)
		if err != nil {
			yield(sdk.LogEntry{}, err)
			return
		}
		defer func() { _ = box.Detach() }()
		found, err := box.Logs.Fetch(ctx, since, &sdk.SandboxLogFetchParams{Until: &until})
		if err != nil {
			yield(sdk.LogEntry{}, err)
			return
		}
		for entry, err := range found {
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// output merges a command's two streams. Each ends, or is over when it has been silent for so long.
func output(ctx context.Context, tail tailer, silence time.Duration) (iter.Seq[logItem], func()) {
	ctx, cancel := context.WithCancel(ctx)
	items := make(chan logItem)
	var readers sync.WaitGroup
	for _, stream := range []core.Stream{core.Stdout, core.Stderr} {
		readers.Go(func() { tail(ctx, stream, silence, items) })
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
func (r *router) tailStream(ctx context.Context, exec string, stream core.Stream, silence time.Duration, items chan<- logItem) {
	var offset uint64
	for p := r.patient(); ; {
		err := r.readStream(ctx, exec, stream, silence, &offset, items, p)
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

// readStream reads until the stream's end, or until it has been silent for so long.
func (r *router) readStream(ctx context.Context, exec string, stream core.Stream, silence time.Duration, offset *uint64, items chan<- logItem, p *patience) error {
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	receive, err := r.openOutput(ctx, exec, stream, *offset)
	if err != nil {
		return err
	}
	silent := newLull(silence, cancel)
	defer silent.stop()
	for {
		silent.wait()
		data, start, err := receive()
		over := silent.came(len(data))
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
		if over {
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
	open := map[core.Stream]int{} // the line of a stream that has no end yet
	for item := range records {
		stream := item.record.Stream
		for text := range bytes.Lines(item.record.Data) {
			at, goesOn := open[stream]
			if !goesOn {
				at = len(all)
				all = append(all, line{stream: stream})
			}
			all[at].size += len(text)
			total[stream] += len(text)
			if open[stream] = at; bytes.HasSuffix(text, []byte("\n")) {
				delete(open, stream)
			}
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
