//go:build linux

package modal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providertest"
)

// A canceled removal also stops inside the sandbox.
func TestRemoveStops(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	inside := func(script string) bool {
		return ran(t, p, id, core.ExecSpec{Command: []string{"sh", "-c", script}}).Code == 0
	}
	if !inside(
		`mkdir -p /usr/local/bin /tree/sub && printf '#!/bin/sh\n: >/begun; exec sleep 4321\n' >/usr/local/bin/rm && chmod 755 /usr/local/bin/rm`,
	) {
		t.Fatal("the slow rm was not made")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	removed := make(chan error, 1)
	go func() { removed <- p.Remove(ctx, id, "/tree", true) }()
	const sleeps = `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' ' ' | grep -q 'sleep 432[1]'`
	eventually(t, func() bool { return inside("test -e /begun && " + sleeps) })
	cancel()
	if err := providertest.Receive(t, removed); !errors.Is(err, core.KindCanceled) {
		t.Errorf("removed: %v", err)
	}
	eventually(t, func() bool { return !inside(sleeps) })
}
