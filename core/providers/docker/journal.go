package docker

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Execs implements core.Journaler. The journal of a sandbox that does not run is in a volume, which the engine can
// still read.
func (p *Provider) Execs(ctx context.Context, id string) ([]core.Exec, error) {
	sb, err := p.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if sb.State == core.StateRunning {
		k, err := p.knownOf(ctx, id)
		if err != nil {
			return nil, err
		}
		execs := []core.Exec{}
		_, err = p.askEach(ctx, id, "ps", wire.Request{Verb: wire.VerbExecs}, func(kind byte, payload []byte) error {
			if kind != wire.FrameExec {
				return nil
			}
			exec, err := k.journal().Decode(payload)
			if err != nil {
				return core.Errorf(core.KindInternal, "docker.ps", id, "the sandbox's answer is damaged: %w", err)
			}
			execs = append(execs, exec)
			return nil
		})
		return execs, err
	}
	entries, remove, err := p.fetchJournal(ctx, id, func(file string) bool { return strings.HasSuffix(file, ".json") })
	if err != nil {
		return nil, err
	}
	defer remove()
	execs, err := entries.All()
	for i := range execs {
		if execs[i].Exit == nil && sb.State != core.StatePaused {
			execs[i].Ended = cmp.Or(execs[i].Ended, sb.Ended)
		}
	}
	return execs, core.Wrap("docker.ps", id, err)
}

// Logs implements core.LogReader.
func (p *Provider) Logs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		sb, err := p.Get(ctx, id)
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		opts.Exec = cmp.Or(opts.Exec, journal.EntryID)
		records := p.keptLogs(ctx, id, opts)
		if sb.State == core.StateRunning {
			records = p.liveLogs(ctx, id, opts)
		}
		for record, err := range records {
			if opts.Exec == journal.EntryID && errors.Is(err, core.KindNotFound) {
				return // a sandbox without an entry command has an empty log
			}
			if !yield(record, core.Wrap("docker.logs", id, err)) || err != nil {
				return
			}
		}
	}
}

// liveLogs reads the logs through the sandbox's first process.
func (p *Provider) liveLogs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		c, err := p.dial(ctx, id, "logs", wire.Request{
			Verb: wire.VerbLogs, Exec: opts.Exec, Follow: opts.Follow, Tail: opts.Tail, Since: opts.Since, Until: opts.Until,
		})
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		defer c.close()
		stop := context.AfterFunc(ctx, c.close)
		defer stop()
		_, err = c.reply(func(kind byte, payload []byte) error {
			if kind != wire.FrameRecord {
				return nil
			}
			record, err := wire.ParseRecord(payload)
			if err != nil {
				return err
			}
			record.Data = append([]byte(nil), record.Data...)
			if !yield(record, nil) {
				return errDetached
			}
			return nil
		})
		switch {
		case errors.Is(err, errDetached):
		case ctx.Err() != nil:
			yield(core.LogRecord{}, ctx.Err())
		case opts.Follow && errors.Is(err, core.KindConflict):
			// The sandbox ended, and with it the followed command.
		case err != nil:
			yield(core.LogRecord{}, err)
		}
	}
}

// keptLogs reads the journal of a sandbox that does not run.
func (p *Provider) keptLogs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		entries, remove, err := p.fetchJournal(ctx, id, filesOf(opts.Exec))
		if err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		defer remove()
		if _, err := entries.Read(opts.Exec); err != nil {
			yield(core.LogRecord{}, journalError(opts.Exec, err))
			return
		}
		for record, err := range journal.Records(ctx, entries.Dir, opts.Exec, opts, func() bool { return true }) {
			if !yield(record, err) {
				return
			}
		}
	}
}

func journalError(exec string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindNotFound, "docker.logs", exec, "the sandbox has no command %q", exec)
	}
	return core.Errorf(core.KindInternal, "docker.logs", exec, "the journal cannot be read: %w", err)
}

// replay returns a command of a sandbox that does not run. The command has ended.
func (p *Provider) replay(
	ctx context.Context, sb core.Sandbox, exec string, streams core.Streams,
) (core.Process, error) {
	entries, remove, err := p.fetchJournal(ctx, sb.ID, filesOf(exec))
	if err != nil {
		return nil, err
	}
	defer remove()
	entry, err := entries.Read(exec)
	if err != nil {
		return nil, journalError(exec, err)
	}
	if entry.Exit == nil {
		if err := notRunning(sb, "attach"); err != nil {
			return nil, err
		}
		return nil, core.Errorf(
			core.KindConflict, "docker.attach", exec, "the exit code is unknown: the sandbox stopped while the command ran",
		)
	}
	if streams.Replay {
		for record, err := range journal.Records(ctx, entries.Dir, exec, core.LogOptions{Exec: exec, Tail: -1}, func() bool {
			return true
		}) {
			if err != nil {
				return nil, core.Wrap("docker.attach", exec, err)
			}
			to := streams.Stdout
			if record.Stream == core.Stderr {
				to = streams.Stderr
			}
			if to == nil {
				continue
			}
			if _, err := to.Write(record.Data); err != nil {
				if err := core.LostOutput(record.Stream, err); err != nil {
					return nil, core.Wrap("docker.attach", exec, err)
				}
				break // the reader has enough
			}
		}
	}
	return ended{id: exec, exit: *entry.Exit}, nil
}

// filesOf returns a filter for the journal files of a command.
func filesOf(exec string) func(file string) bool {
	return func(file string) bool { return file == exec+".json" || file == exec+".log" || file == exec+".log.1" }
}

// journal returns how the sandbox's first process writes the entries of the journal.
func (k known) journal() journal.Entries { return journal.Entries{Key: k.key} }

// fetchJournal copies the wanted files of a sandbox's journal to a local directory. remove removes that directory.
func (p *Provider) fetchJournal(
	ctx context.Context, id string, wanted func(file string) bool,
) (entries journal.Entries, remove func(), err error) {
	e, err := p.connect(ctx)
	if err != nil {
		return entries, nil, p.absent(err, id)
	}
	k, err := p.knownOf(ctx, id)
	if err != nil {
		return entries, nil, err
	}
	dir, err := os.MkdirTemp("", "sb-journal-")
	if err != nil {
		return entries, nil, core.Wrap("docker.journal", id, err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	entries = k.journal()
	entries.Dir = dir
	ctx, cancel := engine.Within(ctx, engine.WorkTimeout)
	defer cancel()
	copied, err := e.Client.CopyFromContainer(
		ctx, k.container, client.CopyFromContainerOptions{SourcePath: k.dir.Journal()},
	)
	if errdefs.IsNotFound(err) {
		if _, err := p.Get(ctx, id); err != nil {
			return entries, nil, err
		}
		return entries, remove, nil // no command ever ran in it
	}
	if err != nil {
		return entries, nil, engine.Classify(ctx, "journal", id, err)
	}
	err = unpackJournal(dir, copied.Content, wanted)
	return entries, remove, engine.Classify(ctx, "journal", id, errors.Join(err, copied.Content.Close()))
}

// unpackJournal extracts the wanted plain files of an archive. The archive is not trusted: root in the sandbox may have
// made it.
func unpackJournal(dir string, archive io.Reader, wanted func(file string) bool) error {
	left := int64(maxJournal)
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Base(path.Clean(h.Name))
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || !wanted(name) {
			continue
		}
		if left -= h.Size; left < 0 {
			return core.Errorf(
				core.KindExhausted, "docker.journal", "", "the sandbox's journal is larger than %s",
				core.Bytes(maxJournal),
			)
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = io.CopyN(f, r, h.Size)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}

// maxJournal bounds the size of a fetched journal. The sandbox can claim any size for its files, at no cost.
const maxJournal = 1 << 30

// ended is a command that ended before the attach.
type ended struct {
	id   string
	exit core.Exit
}

// ID implements core.Process.
func (e ended) ID() string { return e.id }

// Wait implements core.Process.
func (e ended) Wait(context.Context) (core.Exit, error) { return e.exit, nil }

// Signal implements core.Process.
func (e ended) Signal(context.Context, int) error {
	return core.Errorf(core.KindConflict, "docker.kill", e.id, "the command has ended")
}

// Resize implements core.Process.
func (e ended) Resize(context.Context, core.TerminalSize) error {
	return core.Errorf(core.KindConflict, "docker.resize", e.id, "the command has ended")
}

// Close implements core.Process.
func (e ended) Close() error { return nil }
