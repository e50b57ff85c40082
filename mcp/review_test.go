package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// reviewBench is an assistant with a sandbox that has a copy of dir in /app.
func reviewBench(
	t *testing.T, dir string, options ...client.ClientOption,
) (a *assistant, sb string) {
	t.Helper()
	write(t, filepath.Join(dir, "main.go"), "package main\n")
	write(t, filepath.Join(dir, "both.txt"), "old\n")
	write(t, filepath.Join(dir, "gone.txt"), "gone\n")
	provider := fake.New(fake.Options{})
	svc := service.New(service.Options{
		Actor: "mcp", Factories: []core.Factory{provider.Factory()}, StateDir: t.TempDir(),
	})
	a = benchOver(
		t, provider, svc, setup.Options{Toolsets: []string{setup.All}, AllowPaths: []string{dir}},
	).connect(t, options...)
	sb = a.Launch(args{"workdir": "/", "secrets": map[string]string{"KEY": "very-secret"}})
	a.Call("push", args{"sandbox": sb, "local_path": dir + "/", "path": "/app"})
	a.Call("exec", args{"sandbox": sb, "command": "cd /app; echo 'func main() {}' >> main.go; echo new > both.txt; " +
		"rm gone.txt; echo very-secret > made.txt"})
	return a, sb
}

func TestDiffAndApply(t *testing.T) {
	dir := t.TempDir()
	a, sb := reviewBench(t, dir)
	text := textOf(a.result("diff", args{"sandbox": sb}))
	for _, line := range []string{
		"4 changes against " + dir, "M /app/both.txt", "D /app/gone.txt", "A /app/made.txt", "M /app/main.go",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	text = textOf(a.result("diff", args{"sandbox": sb, "patch": true}))
	if !strings.Contains(text, "\n+func main() {}\n") || strings.Contains(text, "very-secret") {
		t.Errorf("the patch:\n%s", text)
	}
	text = textOf(a.result("diff", args{"sandbox": sb, "patch": true, "max_output": 200}))
	if len(text) > 400 || !strings.Contains(text, "the patch is longer") {
		t.Errorf("a patch of 200 characters:\n%s", text)
	}
	text = textOf(a.result("diff", args{"sandbox": sb, "path": "app/main.go"}))
	if !strings.HasPrefix(text, "1 changes against") {
		t.Errorf("of one file:\n%s", text)
	}
	write(t, filepath.Join(dir, "both.txt"), "changed here\n")
	got := a.Call("apply", args{"sandbox": sb})
	checkOutput(t, "apply", got)
	if left, _ := got["left"].([]any); len(left) != 1 || left[0].(map[string]any)["path"] != "both.txt" {
		t.Errorf("left is %v", got["left"])
	}
	for name, want := range map[string]string{
		"main.go": "package main\nfunc main() {}\n", "both.txt": "changed here\n", "made.txt": "very-secret\n",
	} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gone.txt")); !os.IsNotExist(err) {
		t.Errorf("gone.txt: %v", err)
	}
	other := a.Launch(args{})
	a.fails(core.KindNotFound, "apply", args{"sandbox": other})
	a.fails(core.KindUnsupported, "diff", args{"sandbox": other, "patch": true})
}

// Without the user's consent, and outside of the opened directories, no file of this machine changes.
func TestApplyNeedsConsent(t *testing.T) {
	dir := t.TempDir()
	user := &answers{}
	a, sb := reviewBench(t, dir, client.WithElicitationHandler(user))
	a.fails(core.KindCanceled, "apply", args{"sandbox": sb})
	if len(user.questions) != 1 || !strings.Contains(user.questions[0], "Apply 4 changes") {
		t.Errorf("asked was %q", user.questions)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "main.go")); err != nil || string(data) != "package main\n" {
		t.Errorf("main.go: %q, %v", data, err)
	}
}

// A directory that was pushed by another way, and that is not open to the server, is neither compared nor written.
func TestReviewOfAClosedDirectory(t *testing.T) {
	closed := t.TempDir()
	state := t.TempDir()
	provider := fake.New(fake.Options{})
	svc := service.New(service.Options{
		Actor: "mcp", Factories: []core.Factory{provider.Factory()}, StateDir: state,
	})
	b := benchOver(t, provider, svc, setup.Options{Toolsets: []string{setup.All}, AllowPaths: []string{closed}})
	a := b.connect(t)
	sb := a.Launch(args{})
	write(t, filepath.Join(closed, "f"), "1")
	a.Call("push", args{"sandbox": sb, "local_path": closed + "/", "path": "/app"})
	b.host.Options.AllowPaths = []string{t.TempDir()}
	for _, tool := range []string{"diff", "apply"} {
		a.fails(core.KindUnauthorized, tool, args{"sandbox": sb})
	}
}

func TestImages(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "app", "Dockerfile"), "FROM scratch\n")
	write(t, filepath.Join(dir, "outside"), "FROM scratch\n")
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	keeper := fake.NewKeeper(fake.Options{Images: []string{"host", "python:3.12"}}, fake.KeeperOptions{})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{keeper.Factory()}})
	b := benchOver(
		t, keeper.Provider, svc, setup.Options{Toolsets: []string{setup.All}, AllowPaths: []string{dir}},
	)
	a := b.connect(t)
	got := a.Call("image_pull", args{"image": "python:3.12"})
	checkOutput(t, "image_pull", got)
	checkOutput(t, "image_build", a.Call("image_build", args{"local_path": filepath.Join(dir, "app"), "name": "app:1"}))
	list := a.Call("image_list", nil)
	checkOutput(t, "image_list", list)
	if text := textOf(a.result("image_list", nil)); !strings.Contains(text, "python:3.12") ||
		!strings.Contains(text, "app:1") {
		t.Errorf("images: %s", text)
	}
	a.fails(core.KindUsage, "image_pull", args{"image": "oci-archive:/etc/image.tar"})
	a.fails(core.KindUsage, "image_build", args{
		"local_path": filepath.Join(dir, "app"), "name": "app:1", "dockerfile": "../outside",
	})
	for _, closed := range []string{"/etc", filepath.Join(dir, "link")} {
		a.fails(core.KindUnauthorized, "image_build", args{"local_path": closed, "name": "app:1"})
	}
	b.host.Options.Policy.Images = []string{"node:22"}
	a.fails(core.KindUnauthorized, "image_pull", args{"image": "python:3.12"})
	a.fails(core.KindUnauthorized, "image_build", args{"local_path": filepath.Join(dir, "app"), "name": "node:22"})
}
