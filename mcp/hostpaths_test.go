package mcp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/mcp/setup"
)

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPushAndPull(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "src", "a.txt"), "a")
	write(t, filepath.Join(dir, "src", "sub", "b.txt"), "b")
	write(t, filepath.Join(dir, "src", ".gitignore"), "*.log\n")
	write(t, filepath.Join(dir, "src", "x.log"), "left out")
	a := newBench(t, setup.Options{AllowPaths: []string{dir}}).connect(t)
	sb := a.Launch(nil)
	got := a.Call("push", args{"sandbox": sb, "local_path": filepath.Join(dir, "src"), "path": "/tmp"})
	checkOutput(t, "push", got)
	if text := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/src/sub/b.txt"})["content"]; text != "b" {
		t.Errorf("pushed: %v", text)
	}
	a.fails(core.KindNotFound, "file_read", args{"sandbox": sb, "path": "/tmp/src/x.log"})
	a.Call("push", args{"sandbox": sb, "local_path": "src/a.txt", "path": "/tmp/other.txt"})
	if text := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/other.txt"})["content"]; text != "a" {
		t.Errorf("a file of a relative path: %v", text)
	}

	checkOutput(
		t, "pull", a.Call("pull", args{"sandbox": sb, "path": "/tmp/src", "local_path": filepath.Join(dir, "back")}),
	)
	if data, err := os.ReadFile(filepath.Join(dir, "back", "sub", "b.txt")); err != nil || string(data) != "b" {
		t.Errorf("pulled: %q, %v", data, err)
	}
	a.fails(
		core.KindConflict, "pull",
		args{"sandbox": sb, "path": "/tmp/src", "local_path": filepath.Join(dir, "back", "sub", "b.txt")},
	)
	a.Call(
		"pull",
		args{"sandbox": sb, "path": "/tmp/other.txt", "local_path": filepath.Join(dir, "back", "a.txt"), "replace": true},
	)
	if entries, _ := filepath.Glob(filepath.Join(dir, ".sb-*")); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// A pull is prepared beside its target, since a move between file systems fails. The old files are removed once the new
// ones are in place.
func TestPullReplaces(t *testing.T) {
	synctest.Test(t, testPullReplaces)
}

func testPullReplaces(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "disk", "data", "old"), "old")
	b := newBench(t, setup.Options{AllowPaths: []string{dir}})
	a := b.connect(t)
	sb := a.Launch(args{"name": "dev"})
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/data/new", "content": "new"})
	for _, place := range []string{"disk", "disk/made/for/it"} {
		b.provider.Inject(fake.OpRead, fake.Fault{Delay: time.Second, Times: 1})
		pulled := make(chan struct{})
		go func() {
			defer close(pulled)
			a.Call("pull", args{"sandbox": sb, "path": "/tmp/data", "local_path": place, "replace": true})
		}()
		synctest.Wait()
		if staged, _ := filepath.Glob(filepath.Join(dir, "disk", ".sb-*")); len(staged) != 1 {
			t.Errorf("beside %s there are %v", place, staged)
		}
		if _, err := os.Stat(filepath.Join(dir, "disk", "data", "old")); place == "disk" && err != nil {
			t.Errorf("the old file is gone before the new one is there: %v", err)
		}
		<-pulled
	}
	for name, want := range map[string]bool{"disk/data/new": true, "disk/data/old": false, "disk/made/for/it/new": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if staged, _ := filepath.Glob(filepath.Join(dir, "*", ".sb-*")); len(staged) > 0 {
		t.Errorf("left behind: %v", staged)
	}
	// The whole of a sandbox goes into a directory, too, and does not replace it.
	write(t, filepath.Join(dir, "mine", "file"), "mine")
	if got := a.Call("pull", args{
		"sandbox": sb, "path": "/", "local_path": "mine", "replace": true,
	}); got["destination"] != filepath.Join(dir, "mine", "mcp-dev") {
		t.Errorf("a whole sandbox: %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "mine", "file")); err != nil {
		t.Error(err)
	}
}

func TestHostPathsAreClosedByDefault(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	a.fails(core.KindUnauthorized, "push", args{"sandbox": sb, "local_path": "/etc/hostname", "path": "/tmp/"})
	a.fails(core.KindUnauthorized, "pull", args{"sandbox": sb, "path": "/tmp", "local_path": t.TempDir()})
}

// No path leads out of the allowed directories: not "..", not an absolute path, not a link in them.
func TestPathEscapesAreRefused(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	write(t, filepath.Join(dir, "in", "file"), "in")
	for link, target := range map[string]string{
		"link": outside, "file-link": filepath.Join(outside, "secret"), "up": "../..",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	a := newBench(t, setup.Options{AllowPaths: []string{dir}}).connect(t)
	sb := a.Launch(nil)
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/evil", "content": "evil"})
	for _, path := range []string{
		filepath.Join(outside, "secret"), dir + "/../" + filepath.Base(outside) + "/secret", "../" +
			filepath.Base(outside) + "/secret",
		filepath.Join(dir, "link", "secret"), filepath.Join(dir, "file-link"), filepath.Join(dir, "up"), dir + "x",
	} {
		if result := a.result("push", args{"sandbox": sb, "local_path": path, "path": "/tmp/stolen"}); !result.IsError {
			t.Errorf("push of %s: %s", path, textOf(result))
		}
		// a link itself may be replaced
		if result := a.result(
			"pull", args{"sandbox": sb, "path": "/tmp/evil", "local_path": path, "replace": true},
		); !result.IsError && path != filepath.Join(dir, "file-link") && path != filepath.Join(dir, "up") {
			t.Errorf("pull to %s: %s", path, textOf(result))
		}
	}
	if data, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(data) != "secret" {
		t.Errorf("the file outside is %q, %v", data, err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
}

// folders are the roots of a client.
type folders []string

func (f folders) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	result := &mcp.ListRootsResult{}
	for _, dir := range f {
		result.Roots = append(result.Roots, mcp.Root{URI: "file://" + dir, Name: "root"})
	}
	return result, nil
}

func TestRoots(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "rooted")
	for name, options := range map[string][]client.ClientOption{"now": nil, "2025-11-25": {legacy()}} {
		t.Run(name, func(t *testing.T) {
			a := newBench(t, setup.Options{UseRoots: true}).connect(t, append(options, client.WithRootsHandler(folders{dir}))...)
			sb := a.Launch(nil)
			a.Call("push", args{"sandbox": sb, "local_path": filepath.Join(dir, "file"), "path": "/tmp/file"})
			if text := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/file"})["content"]; text != "rooted" {
				t.Errorf("got %v", text)
			}
			if text := a.fails(
				core.KindUnauthorized, "push", args{"sandbox": sb, "local_path": "/etc/hostname", "path": "/tmp/"},
			); !strings.Contains(text, dir) {
				t.Errorf("it does not name the open paths: %s", text)
			}
		})
	}
}
