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
	"sync/atomic"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

const (
	// glance is the silence that ends the search for the last lines before the output is followed. If it is too short,
	// more lines are shown, never fewer.
	glance = 500 * time.Millisecond
	// forever is the patience of a reader that waits for the stream's end.
	forever = time.Duration(math.MaxInt64)
)

// A command that writes constantly is never quiet. So less than lullBytes in lullTime counts as new output, not as
// backlog.
const (
	lullTime  = time.Second
	lullBytes = 32 << 10
)

// clockSkew is the longest time that this machine's clock may be behind Modal's.
const clockSkew = time.Minute

// lull detects that the output so far of a running command has been read. That is after a silence, or when output comes
// as slowly as it is written. The time that the consumer of the output needs does not count.
type lull struct {
	silence time.Duration
	timer   *time.Timer
	from    time.Time
	begun   bool
	waited  time.Duration
	bytes   int
}

// newLull returns a lull that calls end after a silence; stop releases it.
func newLull(silence time.Duration, end func()) *lull {
	return &lull{silence: silence, timer: time.AfterFunc(silence, end), from: time.Now()}
}

func (l *lull) stop() { l.timer.Stop() }

// wait starts a wait for output.
func (l *lull) wait() {
	l.timer.Reset(l.silence)
	l.from = time.Now()
}

// came ends a wait. over reports that only new output comes.
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

// Logs implements core.LogReader for the entry command, or for a command by its id. A command that has ended or is
// followed is read to the end of its stream. A running entry command is read to the end of Modal's stored log. The API
// reports no end for another running command: soFar describes where reading stops, and opts.Notice reports that.
//
// Modal keeps a command's bytes without their times, so a record has the time when it was read. Entries of the stored
// log have their own times.
func (p *Provider) Logs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	if !opts.Since.IsZero() || !opts.Until.IsZero() || opts.Times && opts.Exec == "" && !opts.Follow {
		return p.logsBetween(ctx, id, opts)
	}
	if opts.Exec == "" && !opts.Follow {
		return p.entryLogs(ctx, id, opts)
	}
	return func(yield func(core.LogRecord, error) bool) {
		tail, err := p.tailer(ctx, id, opts.Exec)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		running := false
		if opts.Exec != "" {
			if running, err = p.execRuns(ctx, id, opts.Exec); err != nil {
				yield(core.LogRecord{}, err)
				return
			}
		}
		switch {
		case !opts.Follow && running:
			yieldRecords(p.soFar(ctx, id, opts, pollPause), opts.Tail, yield)
		case opts.Follow && opts.Tail >= 0:
			// Existing output is cut to its last lines; new output is followed.
			past, stop := output(ctx, tail, glance)
			skip := tailOffset(past, opts.Tail)
			stop()
			records, stop := output(ctx, tail, forever)
			defer stop()
			yieldRecords(skipBytes(records, skip), -1, yield)
		default:
			records, stop := output(ctx, tail, forever)
			defer stop()
			yieldRecords(records, opts.Tail, yield)
		}
	}
}

// entryLogs reads the output so far of an entry command. While it runs, Modal's stored log has an end, but its stream
// has none.
func (p *Provider) entryLogs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		sb, err := p.Get(ctx, id)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		if sb.State.Live() {
			p.stored(ctx, sb, opts, yield)
			return
		}
		tail, err := p.tailer(ctx, id, "")
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		records, stop := output(ctx, tail, forever)
		defer stop()
		yieldRecords(records, opts.Tail, yield)
	}
}

// execRuns reports whether a command has not ended. KindNotFound: the sandbox has no such command.
func (p *Provider) execRuns(ctx context.Context, id, exec string) (bool, error) {
	reply, err := p.poll(ctx, id, exec)
	return err == nil && !reply.HasExitStatus(), err
}

// poll returns a command's status: its end if it has ended. KindNotFound: the sandbox has no such command.
func (p *Provider) poll(ctx context.Context, id, exec string) (*pb.TaskExecPollResponse, error) {
	r, err := p.router(ctx, id, true)
	if err != nil {
		return nil, err
	}
	return r.poll(ctx, exec)
}

func (r *router) poll(ctx context.Context, exec string) (*pb.TaskExecPollResponse, error) {
	reply, err := call(ctx, r, func(ctx context.Context) (*pb.TaskExecPollResponse, error) {
		return r.stub.TaskExecPoll(ctx, pb.TaskExecPollRequest_builder{TaskId: r.task, ExecId: exec}.Build())
	})
	if err != nil {
		return nil, logError(r.sandbox, exec, err)
	}
	return reply, nil
}

// tailer reads one stream of a command's output until its end, or until no output has come for the time silence.
type tailer func(ctx context.Context, stream core.Stream, silence time.Duration, items chan<- logItem)

// tailer returns the function that reads a command's output.
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

// logsBetween reads the entry command's output of a time range.
func (p *Provider) logsBetween(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		if opts.Follow || opts.Exec != "" {
			yield(core.LogRecord{}, core.Errorf(
				core.KindUnsupported, "modal.logs", id, "Modal has times only for the output of the entry command",
			).
				WithHint("leave --since and --until out, or --follow and the command's id"))
			return
		}
		sb, err := p.Get(ctx, id)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		p.stored(ctx, sb, opts, yield)
	}
}

// stored reads Modal's stored log of an entry command.
func (p *Provider) stored(
	ctx context.Context, sb core.Sandbox, opts core.LogOptions, yield func(core.LogRecord, error) bool,
) {
	records := func(each func(logItem) bool) {
		for entry, err := range p.entries(ctx, sb, opts.Since, opts.Until) {
			if entry.Source == sdk.LogSourceSystem {
				continue
			}
			item := logItem{
				record: core.LogRecord{Time: entry.Timestamp.UTC(), Stream: core.Stdout, Data: []byte(entry.Message)},
				err:    client.Classify("logs", sb.ID, err),
			}
			if entry.Source == sdk.LogSourceStderr {
				item.record.Stream = core.Stderr
			}
			if !each(item) || err != nil {
				return
			}
		}
	}
	yieldRecords(records, opts.Tail, yield)
}

// entries returns the stored log of a time range, oldest first.
func (p *Provider) entries(
	ctx context.Context, sb core.Sandbox, since, until time.Time,
) iter.Seq2[sdk.LogEntry, error] {
	return func(yield func(sdk.LogEntry, error) bool) {
		c, err := p.connect()
		if err != nil {
			yield(sdk.LogEntry{}, err)
			return
		}
		if since.IsZero() {
			since = sb.Created
		}
		if until.IsZero() {
			until = time.Now().Add(clockSkew)
		}
		if !since.Before(until) {
			return
		}
		box, err := c.SDK.Sandboxes.FromID(ctx, sb.ID, nil)
		if err != nil {
			yield(sdk.LogEntry{}, err)
			return
		}
		defer func() { _ = box.Detach() }()
		var whole completeness
		found, err := box.Logs.Fetch(
			client.WithWitness(ctx, client.Witness{Reply: whole.see}), since, &sdk.SandboxLogFetchParams{Until: &until},
		)
		if err != nil {
			yield(sdk.LogEntry{}, err)
			return
		}
		for entry, err := range found {
			if err == nil {
				err = whole.err(sb.ID)
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// storedEntries is the most entries in one answer of Modal's stored log: the SDK's maxLogFetchEntries. The SDK accepts
// a full answer only for Modal's shortest time range, two seconds.
const storedEntries = 20_000

// completeness detects a full answer of the stored log, from which entries may be missing.
type completeness struct{ cut atomic.Bool }

func (c *completeness) see(reply any) {
	fetched, ok := reply.(*pb.AppFetchLogsResponse)
	if !ok {
		return
	}
	entries := 0
	for _, batch := range fetched.GetBatches() {
		entries += len(batch.GetItems())
	}
	if entries >= storedEntries {
		c.cut.Store(true)
	}
}

func (c *completeness) err(id string) error {
	if !c.cut.Load() {
		return nil
	}
	return core.Errorf(
		core.KindUnavailable, "modal.logs", id,
		"the entry command wrote more than %d lines in two seconds, and Modal returns no more", storedEntries,
	).
		WithHint("sb logs --follow %s reads the stream itself", id)
}

// output merges a command's two streams. Each is read to its end, or until no output has come for the time silence.
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

// tailStream reads one stream. After a broken connection it resumes at the offset that it has reached.
func (r *router) tailStream(
	ctx context.Context, exec string, stream core.Stream, silence time.Duration, items chan<- logItem,
) {
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
		return noExec(exec)
	}
	return client.Classify("logs", id, err)
}

// readStream reads until the stream's end, or until no output has come for the time silence.
func (r *router) readStream(
	ctx context.Context, exec string, stream core.Stream, silence time.Duration, offset *uint64, items chan<- logItem,
	p *patience,
) error {
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

// openOutput opens a stream of output at an offset. The returned function returns a piece of data and its offset.
func (r *router) openOutput(
	ctx context.Context, exec string, stream core.Stream, offset uint64,
) (func() ([]byte, uint64, error), error) {
	if exec == "" {
		fd := pb.SandboxStdioFileDescriptor_SANDBOX_STDIO_FILE_DESCRIPTOR_STDOUT
		if stream == core.Stderr {
			fd = pb.SandboxStdioFileDescriptor_SANDBOX_STDIO_FILE_DESCRIPTOR_STDERR
		}
		from, err := r.stub.SandboxStdioReadV2(
			r.authorized(ctx), pb.SandboxStdioReadV2Request_builder{TaskId: r.task, Offset: offset, FileDescriptor: fd}.Build(),
		)
		return func() ([]byte, uint64, error) {
			part, err := from.Recv()
			return part.GetData(), part.GetStartingOffset(), err
		}, err
	}
	fd := pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
	if stream == core.Stderr {
		fd = pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR
	}
	from, err := r.stub.TaskExecStdioRead(
		r.authorized(ctx),
		pb.TaskExecStdioReadRequest_builder{TaskId: r.task, ExecId: exec, Offset: offset, FileDescriptor: fd}.Build(),
	)
	return func() ([]byte, uint64, error) {
		r.meter.wait()
		part, err := from.Recv()
		r.meter.came(len(part.GetData()), err)
		start := offset
		offset += uint64(len(part.GetData()))
		return part.GetData(), start, err
	}, err
}

// yieldRecords yields all records. If lines is not negative, it yields only the last lines.
func yieldRecords(records iter.Seq[logItem], lines int, yield func(core.LogRecord, error) bool) {
	if lines >= 0 {
		yieldTail(records, lines, yield)
		return
	}
	for item := range records {
		if !yield(item.record, item.err) || item.err != nil {
			return
		}
	}
}

// yieldTail yields the last lines of all records.
func yieldTail(records iter.Seq[logItem], lines int, yield func(core.LogRecord, error) bool) {
	var kept []core.LogRecord
	for item := range records {
		if item.err != nil {
			yield(core.LogRecord{}, item.err)
			return
		}
		for line := range bytes.Lines(item.record.Data) {
			if n := len(kept); n > 0 && kept[n-1].Stream == item.record.Stream &&
				!bytes.HasSuffix(kept[n-1].Data, []byte("\n")) {
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

// tailOffset returns the number of bytes of each stream before the last lines.
func tailOffset(records iter.Seq[logItem], lines int) map[core.Stream]int {
	type line struct {
		stream core.Stream
		size   int
	}
	var all []line
	total := map[core.Stream]int{}
	open := map[core.Stream]int{} // the unfinished line of each stream
	for item := range records {
		stream := item.record.Stream
		for text := range bytes.Lines(item.record.Data) {
			at, continued := open[stream]
			if !continued {
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

// skipBytes skips the first bytes of each stream.
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
