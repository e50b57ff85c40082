package service

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
)

// hostTree is a home with a project, a directory of sb, and a link that leads out of the project.
type hostTree struct{ home, project, src, own, other string }

func newHostTree(t *testing.T) hostTree {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree := hostTree{
		home: filepath.Join(root, "me"), project: filepath.Join(root, "me", "project"),
		src: filepath.Join(root, "me", "project", "src"), own: filepath.Join(root, "me", ".local", "state", "sb"),
		other: filepath.Join(root, "other"),
	}
	for _, dir := range []string{tree.src, tree.own, tree.other} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": tree.other, "home": tree.home, "state": tree.own, "in": tree.src} {
		if err := os.Symlink(target, filepath.Join(tree.project, name)); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func (h hostTree) paths(allowed ...string) HostPaths {
	return HostPaths{Dir: h.project, Homes: []string{h.home}, Allowed: allowed, Own: []string{h.own}}
}

// TestHostPaths has the paths that may and may not be mounted, by default, by the setting, and by the command line.
func TestHostPaths(t *testing.T) {
	tree := newHostTree(t)
	for _, test := range []struct {
		source  string
		named   bool
		allowed []string
		want    string // "" is refused
	}{
		{source: "./src", want: tree.src},
		{source: "../project/src", want: tree.src},
		{source: ".", want: tree.project},
		{source: "~/project/src", want: tree.src},
		{source: tree.src, want: tree.src},
		{source: "./in", want: tree.src},
		{source: "./out"},
		{source: "./out", named: true, want: tree.other},
		{source: tree.other},
		{source: tree.other, named: true, want: tree.other},
		{source: tree.other, allowed: []string{tree.other}, want: tree.other},
		{source: "./src", allowed: []string{tree.other}},
		{source: "./src", named: true, allowed: []string{tree.other}},
		{source: "./out", allowed: []string{tree.project}},
		// Never, whatever is named or allowed.
		{source: "/", named: true, allowed: []string{"/"}},
		{source: "~", named: true, allowed: []string{"/"}},
		{source: "./home", named: true, allowed: []string{"/"}},
		{source: "..", named: true, allowed: []string{"/"}},
		{source: "../..", named: true, allowed: []string{"/"}},
		{source: "./src/../..", named: true},
		{source: "./state", named: true, allowed: []string{"/"}},
		{source: tree.own + "/..", named: true, allowed: []string{"/"}},
		{source: "~/.local", named: true, allowed: []string{"/"}},
		{source: tree.own, named: true},
		{source: "./absent", named: true},
	} {
		got, err := tree.paths(test.allowed...).resolve(test.source, test.named)
		if got != test.want || (err == nil) == (test.want == "") {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "volume "+test.source+": ") {
			t.Errorf("%q is not named in: %v", test.source, err)
		}
		if err != nil && core.HintOf(err) == "" {
			t.Errorf("no hint: %v", err)
		}
	}
	if _, err := (HostPaths{}).resolve("./src", true); err == nil {
		t.Error("without a current directory, a relative path was resolved")
	}
	if _, err := (HostPaths{}).resolve(tree.src, false); err == nil {
		t.Error("the zero value allows a directory")
	}
}

// TestHostPathsOfServer has launches of a server: its policy decides, and its errors do not tell which paths exist.
func TestHostPathsOfServer(t *testing.T) {
	tree := newHostTree(t)
	provider := fake.NewKeeper(fake.Options{Also: []core.Capability{core.CapVolumes}}, fake.KeeperOptions{})
	svc := New(Options{HostPaths: tree.paths(), Factories: []core.Factory{provider.Factory()}})
	defer func() { _ = svc.Close(); provider.Shutdown() }()
	launch := func(policy LaunchPolicy, source string) (core.Sandbox, error) {
		return svc.Within(Scope{Policy: policy}).Sandboxes.Launch(
			t.Context(), core.Spec{Volumes: []core.Volume{{Source: source, Target: "/srv/app"}}}, LaunchOptions{},
		)
	}
	closed := LaunchPolicy{NoHostPaths: true}
	open := LaunchPolicy{NoHostPaths: true, HostPaths: []string{tree.other}}
	for _, source := range []string{"./src", tree.src, "./absent", "/etc/shadow", "~", "./out"} {
		_, err := launch(closed, source)
		if !errors.Is(err, core.KindUnauthorized) || !strings.Contains(core.HintOf(err), "--allow-path") {
			t.Errorf("%s: %v, %s", source, err, core.HintOf(err))
		}
		if _, err := launch(open, source); !errors.Is(err, core.KindUnauthorized) {
			t.Errorf("%s with another directory: %v", source, err)
		}
	}
	sb, err := launch(open, tree.other)
	if err != nil || sb.Spec.Volumes[0].Source != tree.other {
		t.Errorf("an allowed directory: %+v, %v", sb.Spec.Volumes, err)
	}
	if err := os.Symlink(tree.src, filepath.Join(tree.other, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := launch(open, filepath.Join(tree.other, "link")); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("a link out of the allowed directory: %v", err)
	}
	if _, err := launch(closed, "data"); err != nil {
		t.Errorf("a volume with a name: %v", err)
	}
}
