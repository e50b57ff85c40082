//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// A compromised supervisor can write to its sandbox's directory. It may replace its socket or the socket's directory by
// a link. That does not lead a caller's commands and files to another sandbox.
func TestPlantedSocketIsRefused(t *testing.T) {
	p, sb := crashed(t, nil)
	victim := launched(t, p, nil)
	socket := p.store.Socket(sb.ID)
	for name, planted := range map[string]struct{ place, target string }{
		"socket":    {socket, p.store.Socket(victim.ID)},
		"directory": {filepath.Dir(socket), p.store.RuntimeDir(victim.ID)},
	} {
		t.Run(name, func(t *testing.T) {
			aside := planted.place + ".aside"
			if err := errors.Join(os.Rename(planted.place, aside), os.Symlink(planted.target, planted.place)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := errors.Join(os.Remove(planted.place), os.Rename(aside, planted.place)); err != nil {
					t.Error(err)
				}
			})
			process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"touch", "/tmp/reached"}})
			if err == nil {
				_ = process.Close()
				t.Error("a command followed the link")
			}
			if err := p.WriteFile(
				t.Context(), sb.ID, "/tmp/reached", strings.NewReader("x"), core.WriteOptions{},
			); err == nil {
				t.Error("a file followed the link")
			}
			if _, err := p.Stat(t.Context(), victim.ID, "/tmp/reached"); !errors.Is(err, core.KindNotFound) {
				t.Errorf("the other sandbox: %v", err)
			}
		})
	}
	if _, err := p.Stat(t.Context(), sb.ID, "/tmp"); err != nil {
		t.Errorf("without the link: %v", err)
	}
}
