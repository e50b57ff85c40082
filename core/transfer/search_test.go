package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// bottomless is a hostile sandbox: each directory has another one, and each file has no end.
type bottomless struct {
	Files

	listed int
	text   string
}

func (e *bottomless) Stat(_ context.Context, _, name string) (core.FileInfo, error) {
	info := core.FileInfo{Path: name, Mode: 0o644}
	if name == "/" {
		info.Mode |= fs.ModeDir
	}
	return info, nil
}

func (e *bottomless) ReadDir(_ context.Context, _, name string) ([]core.FileInfo, error) {
	e.listed++
	return []core.FileInfo{{Path: path.Join(name, "d"), Mode: fs.ModeDir | 0o755}}, nil
}

func (e *bottomless) ReadFile(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(repeated(e.text)), nil
}

// repeated is a stream without an end.
type repeated string

func (r repeated) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat(string(r), len(p)/len(r)+1)), nil
}

func TestFindIsBounded(t *testing.T) {
	hostile := &bottomless{}
	found := 0
	complete, err := Find(t.Context(), hostile, Tree{Path: "/"}, func(core.FileInfo) bool { found++; return true })
	if err != nil || complete || hostile.listed != maxFindDirectories || found != maxFindDirectories {
		t.Errorf("%d found in %d directories, complete %v, %v", found, hostile.listed, complete, err)
	}
}

// A search ends after MaxBytes, also within a line, and when its caller has enough.
func TestSearchIsBounded(t *testing.T) {
	const most = 1 << 20
	for name, text := range map[string]string{"lines": "no match here\n", "one line": "xxxxxxxx", "matches": "needle\n"} {
		lines := 0
		result, err := Search(t.Context(), &bottomless{text: text}, SearchRequest{
			Tree: Tree{Path: "/file"}, Pattern: regexp.MustCompile("needle"), MaxBytes: most,
		}, func(string, Line) bool { lines++; return lines < 10 })
		if err != nil || result.Complete || result.Bytes > most+1 || name == "matches" != (lines == 10) {
			t.Errorf("%s: %+v, %d lines, %v", name, result, lines, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Search(ctx, &bottomless{text: "x"}, SearchRequest{
		Tree: Tree{Path: "/file"}, Pattern: regexp.MustCompile("y"),
	}, func(string, Line) bool { return true })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
