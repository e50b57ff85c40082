//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/journal"
)

// Logs implements core.LogReader. It reads the journal's files, so it works for dead sandboxes and costs the supervisor
// nothing.
func (p *Provider) Logs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		if _, err := p.Get(ctx, id); err != nil {
			yield(core.LogRecord{}, err)
			return
		}
		exec := cmp.Or(opts.Exec, journal.EntryID)
		entries := p.journal(id)
		_, err := entries.Read(exec)
		if errors.Is(err, fs.ErrNotExist) {
			if exec != journal.EntryID {
				err = core.Errorf(core.KindNotFound, "local.logs", exec, "the sandbox has no command %q", exec)
				yield(core.LogRecord{}, err)
			}
			return // a sandbox without an entry command has an empty log
		}
		if err != nil {
			yield(core.LogRecord{}, stateError("logs", err))
			return
		}
		ended := func() bool {
			entry, err := entries.Read(exec)
			return err != nil || entry.Exit != nil || !p.store.Locked(id)
		}
		for record, err := range journal.Records(ctx, entries.Dir, exec, opts, ended) {
			if !yield(record, core.Wrap("local.logs", exec, err)) {
				return
			}
		}
	}
}
