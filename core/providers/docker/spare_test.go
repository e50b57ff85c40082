//go:build linux

package docker

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

func (p *Provider) spareOf(id string) *call {
	p.spareMu.Lock()
	defer p.spareMu.Unlock()
	if s := p.spares[id]; s != nil {
		return s.call
	}
	return nil
}

// A copy reads its target's state and writes the target on the same call.
func TestSpareCall(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, throughEngine)
		sb := box(t, p, nil)
		if _, err := p.Stat(t.Context(), sb.ID, "/tmp"); err != nil {
			t.Fatal(err)
		}
		kept := p.spareOf(sb.ID)
		if kept == nil {
			t.Fatal("no call was kept")
		}
		// "Not found" is a regular answer: the call is kept.
		_, err := p.Stat(t.Context(), sb.ID, "/tmp/file")
		wantKind(t, err, core.KindNotFound)
		if again := p.spareOf(sb.ID); again != kept {
			t.Error("the second question was on a call of its own")
		}
		if err := p.WriteFile(
			t.Context(), sb.ID, "/tmp/file", bytes.NewReader([]byte("written\n")), core.WriteOptions{},
		); err != nil {
			t.Fatal(err)
		}
		if p.spareOf(sb.ID) != nil {
			t.Error("the write was on a call of its own")
		}
		if out, _ := sh(t, p, sb.ID, "cat /tmp/file"); out != "written\n" {
			t.Errorf("the file holds %q", out)
		}
		if _, err := p.Stat(t.Context(), sb.ID, "/tmp"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an unused call is closed", func() bool { return p.spareOf(sb.ID) == nil })
		// Only operations on files can follow on such a call.
		c, err := p.dial(t.Context(), sb.ID, "stat", wire.Request{Verb: wire.VerbFile, File: statOf(t, "/tmp")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		if _, err := c.reply(nil); err != nil {
			t.Fatal(err)
		}
		payload, err := wire.Request{Verb: wire.VerbExpire, Issued: time.Now()}.Sign(p.known[sb.ID].key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(wire.AppendFrame(nil, wire.FrameRequest, payload)); err != nil {
			t.Fatal(err)
		}
		if reply, err := c.reply(nil); err == nil {
			t.Errorf("another verb was answered with %+v", reply)
		}
	})
}

func statOf(t *testing.T, path string) []string {
	t.Helper()
	argv, err := guest.Request{Op: guest.OpStat, Path: []byte(path)}.Argv()
	if err != nil {
		t.Fatal(err)
	}
	return argv
}

// A frozen sandbox does not respond. The engine soon reports that it is frozen.
func TestSpareCallFrozen(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, throughEngine)
		if err := p.learn(t.Context(), p.engine); err != nil || !p.engine.Facts().Grouped {
			return // the first process pauses the sandbox there, and still answers
		}
		sb := box(t, p, nil)
		if _, err := p.Stat(t.Context(), sb.ID, "/tmp"); err != nil {
			t.Fatal(err)
		}
		if err := p.Pause(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), hangs)
		defer cancel()
		_, err := p.Stat(ctx, sb.ID, "/tmp")
		wantKind(t, err, core.KindConflict)
		if err := p.Resume(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
	})
}
