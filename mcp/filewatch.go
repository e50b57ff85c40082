package mcp

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// How often subscribed files are looked at. Where the provider tells of changes the time between two looks grows, from
// the one to the other: they find what changed before its watch stood, and what it missed.
const (
	filePoll    = time.Second
	watchedPoll = 16 * time.Second
)

// maxWatches bounds how many files are watched at a time, since each costs a process in its sandbox. The others are
// looked at.
const maxWatches = 16

// fileWatch is what is known of a subscribed file. The lock of subscriptions guards it.
type fileWatch struct {
	// seen is what the file was like when it was last looked at.
	seen fileState
	// next is when to look again; every is the time from then to the look after it, 0 being filePoll.
	next  time.Time
	every time.Duration
	// end ends its watch; nil without one.
	end context.CancelFunc
}

func (w *fileWatch) unwatch() {
	if w.end != nil {
		w.end()
	}
}

type fileState struct {
	size     int64
	modified time.Time
	mode     fs.FileMode
	exists   bool
}

// Close has no watch begin any more.
func (s *subscriptions) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// watchFile has the provider tell of a file's changes, where it can and not too many are watched already.
func (s *Server) watchFile(sub *subscription) {
	if caps, err := s.service.Providers.Capabilities(sub.sandbox.Provider); err != nil || !caps.Can(core.CapFileWatch) {
		return
	}
	s.subscribed.mu.Lock()
	defer s.subscribed.mu.Unlock()
	if s.subscribed.closed || s.subscribed.watches >= maxWatches || len(sub.clients) == 0 {
		return
	}
	s.subscribed.watches++
	ctx, cancel := context.WithCancel(s.ctx)
	sub.file.end = cancel
	s.wg.Go(func() {
		defer func() {
			cancel()
			s.subscribed.mu.Lock()
			s.subscribed.watches--
			s.subscribed.mu.Unlock()
		}()
		for ctx.Err() == nil {
			s.heed(ctx, sub)
			select {
			case <-ctx.Done():
			case <-time.After(watchedPoll):
			}
		}
	})
}

// heed tells of a file's changes as long as its provider does, at most once in filePoll.
func (s *Server) heed(ctx context.Context, sub *subscription) {
	name := sub.location.path
	s.subscribed.mu.Lock()
	watched := name
	if !sub.file.seen.mode.IsDir() {
		// A file may not exist yet, and be replaced by another.
		watched = path.Dir(name)
	}
	sub.file.every = filePoll
	s.subscribed.mu.Unlock()
	defer func() {
		s.subscribed.mu.Lock()
		sub.file.every, sub.file.next = 0, time.Time{}
		s.subscribed.mu.Unlock()
	}()
	var lastNotice time.Time
	for event, err := range s.service.Files.Watch(ctx, sub.sandbox.Ref(), watched, false) {
		switch {
		case err != nil:
			s.log.DebugContext(ctx, "watching a file", "path", watched, "error", err)
		case watched != name && event.Path != name && event.From != name:
		case time.Since(lastNotice) < filePoll:
			s.subscribed.mu.Lock()
			sub.file.next, sub.file.every = time.Time{}, filePoll
			s.subscribed.mu.Unlock()
		default:
			lastNotice = time.Now()
			s.lookAt(sub, true)
		}
	}
}

// fileChanged tells of a file that a tool changed, without waiting for the next look.
func (s *Server) fileChanged(sb core.Sandbox, name string) {
	for _, sub := range s.subscribed.files(func(sub *subscription) bool {
		return sub.sandbox.ID == sb.ID && (sub.location.path == name ||
			strings.HasPrefix(name, strings.TrimSuffix(sub.location.path, "/")+"/"))
	}) {
		s.lookAt(sub, true)
	}
}

// lookAtFiles looks at each file when it is time, until the server ends.
func (s *Server) lookAtFiles() {
	tick := time.NewTicker(filePoll)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			for _, sub := range s.subscribed.files(func(sub *subscription) bool { return sub.file.due(now) }) {
				s.lookAt(sub, false)
			}
		}
	}
}

// due says whether it is time to look, and when it will be the next time.
func (w *fileWatch) due(now time.Time) bool {
	if now.Before(w.next) {
		return false
	}
	w.next = now.Add(w.every)
	w.every = min(2*w.every, watchedPoll)
	return true
}

// files lists the subscriptions to files that fit.
func (s *subscriptions) files(fits func(*subscription) bool) []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	var files []*subscription
	for _, sub := range s.byURI {
		if sub.location.kind == "files" && fits(sub) {
			files = append(files, sub)
		}
	}
	return files
}

// lookAt tells the subscribers of a file if it changed, or is known to have.
func (s *Server) lookAt(sub *subscription, changed bool) {
	now, known := s.look(s.ctx, sub.sandbox, sub.location.path)
	s.subscribed.changed(func(other *subscription) bool {
		if other != sub {
			return false
		}
		if known {
			changed = changed || sub.file.seen != now
			sub.file.seen = now
		}
		return changed
	})
}

// look returns the state of a file. known is false when the provider cannot answer now.
func (s *Server) look(ctx context.Context, sb core.Sandbox, name string) (state fileState, known bool) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	info, err := s.service.Files.Stat(ctx, sb.Ref(), name)
	if err != nil {
		return fileState{}, !slices.Contains(
			[]core.Kind{core.KindUnavailable, core.KindTimeout, core.KindCanceled}, core.KindOf(err),
		)
	}
	return fileState{size: info.Size, modified: info.ModTime, mode: info.Mode, exists: true}, true
}
