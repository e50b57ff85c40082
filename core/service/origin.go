package service

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/origin"
)

// origins are the records of the directories that sandboxes have copies of.
func (s *base) origins() origin.Store {
	if s.audit == nil {
		return origin.Store{}
	}
	return origin.Store{Dir: filepath.Join(s.audit.dir, "origins")}
}

// Origins returns the directories of this machine that were pushed to a sandbox, or that it sees copy-on-write, sorted
// by their path in the sandbox.
func (s Files) Origins(ctx context.Context, ref string) ([]origin.Origin, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	list, err := s.origins().Read(sb.Provider, sb.ID)
	return list, about("diff", ref, sb, err)
}

// RecordOrigin records where files of a sandbox came from. It replaces the record with the same target.
func (s Files) RecordOrigin(ctx context.Context, ref string, o origin.Origin) error {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	return about("push", ref, sb, s.origins().Write(sb.Provider, sb.ID, o))
}

// Diff returns the files that differ between a sandbox and its image or the host directories below it, sorted by path.
// KindUnsupported: its provider cannot list them.
func (s Files) Diff(ctx context.Context, ref string) (changes []core.Change, err error) {
	err = s.act(ctx, "diff", ref, nil, func(sb core.Sandbox, _ core.Provider) error {
		differ, err := capable[core.Differ](s.base, sb.Provider, "diff")
		if err != nil {
			return err
		}
		changes, err = differ.Diff(ctx, sb.ID)
		return err
	})
	return changes, err
}

// surveys are the states of the directories that a new sandbox sees copy-on-write. They are taken while it starts.
type surveys struct {
	s      *base
	ctx    context.Context //nolint:containedctx // a survey lives for one launch
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	taken []origin.Origin
	err   error
}

// surveyCopies begins to look at the directories of a spec. The caller calls record or stop.
func (s *base) surveyCopies(ctx context.Context, spec core.Spec) *surveys {
	ctx, cancel := context.WithCancel(ctx)
	list := &surveys{s: s, ctx: ctx, cancel: cancel}
	for _, v := range spec.Volumes {
		if v.CopyOnWrite {
			list.work.Go(func() { list.take(v) })
		}
	}
	return list
}

func (l *surveys) take(v core.Volume) {
	o := origin.Origin{Target: filepath.Clean(v.Target), CopyOnWrite: true, Recorded: l.s.now().UTC()}
	source, err := filepath.EvalSymlinks(v.Source)
	if err == nil {
		o.Source = source
		o.Files, err = origin.Survey(l.ctx, source)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err, o.Files = err, nil
	}
	if o.Source != "" {
		l.taken = append(l.taken, o)
	}
}

// record waits for the surveys and writes them for a sandbox.
func (l *surveys) record(sb core.Sandbox) error {
	l.work.Wait()
	err := l.err
	for _, o := range l.taken {
		if writeErr := l.s.origins().Write(sb.Provider, sb.ID, o); writeErr != nil {
			err = writeErr
		}
	}
	return err
}

// stop ends the surveys.
func (l *surveys) stop() {
	l.cancel()
	l.work.Wait()
}

// inheritOrigins gives a copy of a sandbox the records of its source.
func (s *base) inheritOrigins(source, made core.Sandbox) {
	list, err := s.origins().Read(source.Provider, source.ID)
	for _, o := range list {
		if writeErr := s.origins().Write(made.Provider, made.ID, o); writeErr != nil {
			err = writeErr
		}
	}
	if err != nil {
		s.log.Warn("the origin of files was not copied", "sandbox", made.ID, "error", err)
	}
}

// forgetOrigins removes the records of a sandbox that ended. Prune removes what it leaves.
func (s *base) forgetOrigins(sb core.Sandbox) {
	if err := s.origins().Remove(sb.Provider, sb.ID); err != nil {
		s.log.Warn("the origin of files was not forgotten", "sandbox", sb.ID, "error", err)
	}
}

// pruneOrigins removes the records of sandboxes that are gone. A provider that did not answer keeps all its records.
func (s *base) pruneOrigins(ctx context.Context, opts PruneOptions, listing Listing) {
	names, err := s.origins().Sandboxes()
	if err != nil || opts.DryRun || ctx.Err() != nil {
		return
	}
	there, silent := map[string]bool{}, map[string]bool{}
	for _, sb := range listing.Sandboxes {
		there[sb.Provider+"-"+sb.ID] = true
	}
	for _, failure := range listing.Failures {
		silent[failure.Provider] = true
	}
	for _, name := range names {
		for _, lazy := range s.lazyProviders {
			provider := lazy.factory.Name
			id, ours := strings.CutPrefix(name, provider+"-")
			if !ours || silent[provider] || there[name] {
				continue
			}
			p, err := lazy.open()
			if err != nil {
				continue
			}
			if _, err := p.Get(ctx, id); errors.Is(err, core.KindNotFound) {
				s.forgetOrigins(core.Sandbox{Provider: provider, ID: id})
			}
		}
	}
}
