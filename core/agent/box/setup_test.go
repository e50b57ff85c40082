//go:build linux

package box

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// A box that a sb of another version starts refuses with both versions.
func TestSetupOfAnotherVersion(t *testing.T) {
	for version, want := range map[int]error{wire.Version: nil, 0: core.KindUnavailable, wire.Version +
		1: core.KindUnavailable} {
		setup, err := json.Marshal(wire.Setup{Version: version, Config: wire.Config{ID: "box"}})
		if err != nil {
			t.Fatal(err)
		}
		stdin, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(wire.AppendFrame(nil, wire.FrameSetup, setup)); err != nil {
			t.Fatal(err)
		}
		if got, err := readSetup(stdin); !errors.Is(err, want) || got.Config.ID != "box" {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
		_ = errors.Join(stdin.Close(), to.Close())
	}
}
