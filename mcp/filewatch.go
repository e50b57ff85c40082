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

// Subscribed files are polled every filePoll. If the provider reports changes, the interval grows to watchedPoll.
// Polling still finds changes from before the watch, and changes that the watch missed.
const (
	filePoll    = time.Second
	watchedPoll = 16 * time.Second
)

// maxWatches bounds the number of watched files, since each watch costs a process in its sandbox. The other files are
// polled.
const maxWatches = 16

// fileWatch is the state of a subscribed file. The lock of subscriptions guards it.
type fileWatch struct {
	// seen is the state of the file at the last poll.
	seen fileState
	// next is the time of the next poll; every is the interval after it, and 0 means filePoll.
	next  time.Time
	every time.Duration
	// end stops the watch; nil without one.
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

// Close prevents new watches.
func (s *subscriptions) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// watchFile starts a watch of a file, if the provider supports it and fewer than maxWatches exist.
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

// heed reports a file's changes while its provider does, at most once per filePoll.
func (s *Server) heed(ctx context.Context, sub *subscription) {
	name := sub.location.path
	s.subscribed.mu.Lock()
	watched := name
	if !sub.file.seen.mode.IsDir() {
		// The file may not exist yet, or another file may replace it.
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

// fileChanged reports a file that a tool changed, without waiting for the next poll.
func (s *Server) fileChanged(sb core.Sandbox, name string) {
	for _, sub := range s.subscribed.files(func(sub *subscription) bool {
		return sub.sandbox.ID == sb.ID && (sub.location.path == name ||
			strings.HasPrefix(name, strings.TrimSuffix(sub.location.path, "/")+"/"))
	}) {
		s.lookAt(sub, true)
	}
}

// lookAtFiles polls each file when it is due, until the server ends.
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

// due reports whether a poll is due. If so, it sets the time of the next one.
func (w *fileWatch) due(now time.Time) bool {
	if now.Before(w.next) {
		return false
	}
	w.next = now.Add(w.every)
	w.every = min(2*w.every, watchedPoll)
	return true
}

// files lists the subscriptions to files for which fits returns true.
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

// lookAt notifies a file's subscribers if the file changed. changed reports a change that is known already.
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
