package tools

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
)

// The results that the server keeps for callers that repeat their call: at most maxContinued, for continuedFor after
// the end of the work.
const (
	maxContinued = 100
	continuedFor = 10 * time.Minute
)

// continuing has the work of calls that outlasted the soft deadline, oldest first.
type continuing struct {
	mu   sync.Mutex
	list []*continuedWork
}

// continuedWork is the work of one call.
type continuedWork struct {
	steps

	owner, tool, arguments string
	started                time.Time
	cancel                 context.CancelFunc
	done                   chan struct{} // closed when the fields below are set
	ended                  time.Time
	result                 *mcp.CallToolResult
	err                    error
}

// stale reports whether the result is too old for a caller.
func (w *continuedWork) stale() bool {
	select {
	case <-w.done:
		return time.Since(w.ended) > continuedFor
	default:
		return false
	}
}

// leave keeps work for a later call.
func (c *continuing) leave(w *continuedWork) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, (*continuedWork).stale)
	if len(c.list) == maxContinued {
		c.list = c.list[1:]
	}
	c.list = append(c.list, w)
}

// take returns the oldest work with these arguments that no call waits for, or nil.
func (c *continuing) take(owner, tool, arguments string) *continuedWork {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, (*continuedWork).stale)
	i := slices.IndexFunc(c.list, func(w *continuedWork) bool {
		return w.owner == owner && w.tool == tool && w.arguments == arguments
	})
	if i < 0 {
		return nil
	}
	w := c.list[i]
	c.list = slices.Delete(c.list, i, i+1)
	return w
}

// continued runs the work of a call until it ends or the soft deadline passes. After the deadline it continues without
// the call, and the error has KindTimeout. The next call with the same arguments waits for it, and its result names the
// start of the work. A request that the client cancels ends the work.
func (c *Call) continued(
	ctx context.Context, tool, arguments string, run func(ctx context.Context) (*mcp.CallToolResult, error),
) (*mcp.CallToolResult, error) {
	notify := func(step string) { c.SendProgress(ctx, step) }
	w := c.Host.continuing.take(c.Identity.Label(), tool, arguments)
	earlier := w != nil
	if earlier {
		w.attach(notify)
	} else {
		w = c.beginWork(ctx, tool, arguments, notify, run)
	}
	deadline := time.NewTimer(c.Host.Options.SoftDeadline)
	defer deadline.Stop()
	select {
	case <-w.done:
	case <-ctx.Done():
		w.cancel()
		<-w.done
	case <-deadline.C:
		w.attach(nil)
		c.Host.continuing.leave(w)
		return nil, core.Errorf(
			core.KindTimeout, tool, "", "%s has not ended after %s: %s", tool,
			time.Since(w.started).Round(time.Second), cmp.Or(w.latest(), "it is in progress"),
		).WithHint("it continues; the same call again waits for its result")
	}
	if earlier && w.err == nil {
		w.result.Content = append(w.result.Content, mcp.NewTextContent(
			"note: this is the result of the call of "+w.started.UTC().Format(time.TimeOnly)+
				" UTC. Later changes are not in it; the same call again repeats the work.",
		))
	}
	return w.result, w.err
}

// beginWork starts the work of a call. The work has the caller's identity, but not its end.
func (c *Call) beginWork(
	ctx context.Context, tool, arguments string, notify func(step string),
	run func(ctx context.Context) (*mcp.CallToolResult, error),
) *continuedWork {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.Host.Context, cancel)
	w := &continuedWork{
		owner: c.Identity.Label(), tool: tool, arguments: arguments, started: time.Now(), cancel: cancel,
		done: make(chan struct{}),
	}
	w.attach(notify)
	c.steps = &w.steps
	c.Host.Go(func() {
		defer cancel()
		defer stop()
		w.result, w.err = run(running)
		w.ended = time.Now()
		close(w.done)
	})
	return w
}
