package docker

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// A sandbox and an sb of different versions return a clear error. Terminate still works.
func TestOtherProtocolVersions(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, nil)
		k, err := p.knownOf(t.Context(), sb.ID)
		if err != nil {
			t.Fatal(err)
		}
		if k.protocol != wire.Version {
			t.Errorf("the container's label says version %d", k.protocol)
		}

		// The request of an older sb, without a version.
		body := []byte(`{"verb":"exec","argv":["true"]}`)
		mac := hmac.New(sha256.New, k.key)
		mac.Write(body)
		payload, err := json.Marshal(map[string][]byte{"body": body, "mac": mac.Sum(nil)})
		if err != nil {
			t.Fatal(err)
		}
		engine, err := p.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		line, err := engine.execLine(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		c := &call{line: line, p: p, id: sb.ID, op: "exec"}
		defer c.close()
		if _, err := c.Write(wire.AppendFrame(nil, wire.FrameRequest, payload)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.reply(nil); !errors.Is(err, core.KindUnavailable) || !strings.Contains(err.Error(), "protocol 0") {
			t.Errorf("an older request: %v", err)
		}

		// A container of an older sb.
		k.protocol = 1
		p.knownMu.Lock()
		p.known[sb.ID] = k
		p.knownMu.Unlock()
		_, err = p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"true"}})
		if !errors.Is(err, core.KindUnavailable) || !strings.Contains(err.Error(), "the sandbox's supervisor 1") ||
			!strings.Contains(core.HintOf(err), "terminate") {
			t.Errorf("an older container: %v (%s)", err, core.HintOf(err))
		}
		if err := p.Terminate(t.Context(), sb.ID); err != nil {
			t.Errorf("terminate: %v", err)
		}
	})
}

func TestProtocolOfLabels(t *testing.T) {
	described, err := labels(core.Spec{Name: "dev"}, core.Lease{}, wire.NewDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{described[labelProtocol]: wire.Version, "": 1, "none": 1} {
		described[labelProtocol] = text
		if d, ok := describe("0123456789ab", described, "/sb-dev"); !ok || d.protocol != want {
			t.Errorf("%q: %d, %v", text, d.protocol, ok)
		}
	}
}
