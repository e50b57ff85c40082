package service

import (
	"context"
	"iter"

	"github.com/seed-0724f904/sb/core"
)

// Watch reports the changes at a path of a sandbox, as FileWatcher does. A relative path begins at the sandbox's
// workdir. That ctx has ended is no error.
func (s Files) Watch(ctx context.Context, ref, name string, recursive bool) iter.Seq2[core.FileEvent, error] {
	return func(yield func(core.FileEvent, error) bool) {
		sb, _, err := s.resolve(ctx, ref)
		var watcher core.FileWatcher
		if err == nil {
			watcher, err = capable[core.FileWatcher](s.base, sb.Provider, "watch")
		}
		if err == nil {
			name, err = sandboxPath("watch", sb, name)
		}
		if err != nil {
			yield(core.FileEvent{}, err)
			return
		}
		for event, err := range watcher.WatchFiles(ctx, sb.ID, name, recursive) {
			if err != nil && ctx.Err() != nil || !yield(event, core.Wrap("watch", name, err)) || err != nil {
				return
			}
		}
	}
}
