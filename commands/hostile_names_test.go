package commands

import (
	"context"
	"io/fs"
	"iter"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// hostileName is a file name that retitles the terminal and clears it.
const hostileName = "a\x1b]0;owned\x07\x1b[2Jb"

// hostileFiles is a stub whose sandboxes hold one file, with a hostile name.
type hostileFiles struct {
	*stub
	core.FileSystem
}

func (h hostileFiles) Capabilities() core.Capabilities {
	caps := h.stub.Capabilities()
	caps.Has = append(caps.Has, core.CapFiles, core.CapFileWatch)
	return caps
}

func (hostileFiles) Stat(_ context.Context, _, path string) (core.FileInfo, error) {
	return core.FileInfo{Path: path, Mode: fs.ModeDir | 0o755}, nil
}

func (hostileFiles) ReadDir(_ context.Context, _, path string) ([]core.FileInfo, error) {
	return []core.FileInfo{{Path: path + "/" + hostileName, Mode: 0o644}}, nil
}

func (hostileFiles) WatchFiles(_ context.Context, _, path string, _ bool) iter.Seq2[core.FileEvent, error] {
	return func(yield func(core.FileEvent, error) bool) {
		yield(core.FileEvent{Kind: core.FileCreated, Path: path + "/" + hostileName}, nil)
	}
}

// A name that the guest chose reaches a terminal without control characters, and a pipe unchanged.
func TestGuestNamesOnATerminal(t *testing.T) {
	for name, args := range map[string][]string{
		"ls -q": {"fs", "ls", "-q", "one", "/w"},
		"watch": {"fs", "watch", "one", "/w"},
	} {
		for _, terminal := range []bool{false, true} {
			provider := hostileFiles{stub: &stub{boxes: map[string]core.Sandbox{}, leases: map[string]core.Lease{}}}
			app, streams := appOver(t, provider, "one")
			if terminal {
				streams.SetTTY(80)
			}
			if code := execute(t.Context(), app, args); code != 0 {
				t.Fatalf("%s: exit code %d: %s", name, code, streams.Err)
			}
			out := streams.Out.String()
			if strings.Contains(out, hostileName) == terminal || strings.ContainsAny(out, "\x1b\x07") == terminal ||
				!strings.HasSuffix(out, "b\n") {
				t.Errorf("%s, terminal %v: %q", name, terminal, out)
			}
		}
	}
}
