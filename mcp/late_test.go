package mcp

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// lateProvider calls after when a client has read a log, and before it asks for the command's state.
type lateProvider struct {
	*fake.Provider

	after func(ctx context.Context, id string)
}

func (p lateProvider) Logs(ctx context.Context, id string, opts core.LogOptions) iter.Seq2[core.LogRecord, error] {
	return func(yield func(core.LogRecord, error) bool) {
		p.Provider.Logs(ctx, id, opts)(yield)
		p.after(context.WithoutCancel(ctx), id)
	}
}

// A command that writes and ends just after its log was read is not reported as ended without its output.
func TestOutputAtTheEndIsNotLost(t *testing.T) {
	release := make(chan struct{})
	late := func(ctx context.Context, c *fake.Call) int {
		select {
		case <-release:
			_, _ = fmt.Fprintln(c.Stdout, "late")
		case <-ctx.Done():
		}
		return 0
	}
	inner := fake.New(fake.Options{Programs: map[string]fake.Program{"late": late}})
	provider := lateProvider{inner, func(ctx context.Context, id string) {
		select {
		case <-release:
			return
		default:
			close(release)
		}
		process, err := inner.Attach(ctx, id, "1", core.Streams{})
		if err == nil {
			_, err = process.Wait(ctx)
			_ = process.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}}
	factory := inner.Factory()
	factory.Open = func() (core.Provider, error) { return provider, nil }
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{factory}})
	a := benchOver(t, inner, svc, setup.Options{}).connect(t)
	sb := a.Launch(args{})
	started := a.Call("exec", args{"sandbox": sb, "command": "late", "background": true})
	got := a.Call("exec_wait", args{"sandbox": sb, "exec_id": started["exec_id"], "wait_seconds": 0})
	if got["running"] != false || got["stdout"] != "late\n" {
		t.Errorf("the end: %v", got)
	}
}
