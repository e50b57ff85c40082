package tools

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// singleRuns has the sandboxes of single runs that outlasted their calls.
type singleRuns struct {
	mu sync.Mutex
	// collected has a channel for each sandbox id, which is closed when a client has the end of the run.
	collected map[string]chan struct{}
}

// wait returns the channel of a sandbox.
func (s *singleRuns) wait(sandbox string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.collected == nil {
		s.collected = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	s.collected[sandbox] = done
	return done
}

// collect reports that a client has the end of the run in a sandbox.
func (s *singleRuns) collect(sandbox string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done := s.collected[sandbox]; done != nil {
		close(done)
		delete(s.collected, sandbox)
	}
}

// endAfter terminates the sandbox of a single run after the run: when a client has its result, or continuedFor later.
func (c *Call) endAfter(ctx context.Context, sb core.Sandbox, e *runningExec) {
	collected := c.Host.single.wait(sb.ID)
	ctx = context.WithoutCancel(ctx)
	c.Host.Go(func() {
		defer c.Host.single.collect(sb.ID)
		select {
		case <-e.done:
		case <-c.Host.Context.Done():
			return // sessions decide about their sandboxes
		}
		timer := time.NewTimer(continuedFor)
		defer timer.Stop()
		select {
		case <-collected:
		case <-timer.C:
		case <-c.Host.Context.Done():
			return
		}
		c.endSingle(ctx, sb)
	})
}

// endSingle terminates the sandbox of a single run. If that fails, the lease ends it.
func (c *Call) endSingle(ctx context.Context, sb core.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := c.terminate(ctx, sb); err != nil {
		c.Host.Log.WarnContext(ctx, "the sandbox of a single run could not be terminated", "sandbox", sb.ID, "error", err)
	}
}
