package mcp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// A call that outlasts the soft deadline continues. The same call again gets its result, and does not repeat the work.
func TestCallContinues(t *testing.T) {
	b := newBench(t, setup.Options{SoftDeadline: 10 * time.Millisecond, Toolsets: []string{"all"}})
	a := b.connect(t)
	base := a.Launch(args{"name": "base"})
	gate := make(chan struct{})
	b.provider.Inject(fake.OpFork, fake.Fault{Until: gate})
	arguments := args{"sandbox": base, "name": "copy"}
	if text := a.fails(core.KindTimeout, "sandbox_fork", arguments); !strings.Contains(text, "the same call again") {
		t.Errorf("the first call: %s", text)
	}
	a.fails(core.KindTimeout, "sandbox_fork", arguments)
	close(gate)
	var text string
	for deadline := time.Now().Add(patience); ; {
		result := a.result("sandbox_fork", arguments)
		if text = textOf(result); !result.IsError {
			break
		}
		if !strings.Contains(text, "it continues") || time.Now().After(deadline) {
			t.Fatalf("the last call: %s", text)
		}
	}
	if !strings.Contains(text, "this is the result of the call of") {
		t.Errorf("the result does not name the earlier call: %s", text)
	}
	sandboxes, err := b.provider.List(t.Context())
	if err != nil || len(sandboxes) != 2 {
		t.Errorf("listed: %+v, %v", sandboxes, err)
	}
	// The result is returned once. Another call does the work again.
	for deadline := time.Now().Add(patience); ; {
		text = textOf(a.result("sandbox_fork", arguments))
		if strings.Contains(text, core.KindConflict.String()) {
			break
		}
		if !strings.Contains(text, "it continues") || time.Now().After(deadline) {
			t.Fatalf("a fork with a used name: %s", text)
		}
	}
}

// A canceled call ends its work.
func TestCanceledCallDoesNotContinue(t *testing.T) {
	b := newBench(t, setup.Options{SoftDeadline: time.Hour, Toolsets: []string{"all"}})
	a := b.connect(t)
	base := a.Launch(args{"name": "base"})
	b.provider.Inject(fake.OpFork, fake.Fault{Until: make(chan struct{})})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	arguments := args{"sandbox": base, "name": "copy"}
	if result, err := a.try(ctx, "sandbox_fork", arguments); err == nil && !result.IsError {
		t.Errorf("the canceled call returned %v", result)
	}
	b.provider.Inject(fake.OpFork, fake.Fault{})
	result := a.result("sandbox_fork", arguments)
	if text := textOf(result); result.IsError || strings.Contains(text, "the call of") {
		t.Errorf("the canceled fork continued: %s", text)
	}
}
