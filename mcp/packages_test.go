package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// Node.js finds the packages of npm from every directory, and a failed installation is not hidden.
func TestInstallWithNPM(t *testing.T) {
	npm := func(_ context.Context, c *fake.Call) int {
		if c.Args[1] == "root" {
			_, _ = fmt.Fprintln(c.Stdout, "/usr/lib/node_modules")
			return 0
		}
		_, _ = fmt.Fprintln(c.Stdout, strings.Join(c.Args[1:], " "))
		if c.Args[len(c.Args)-1] == "absent" {
			return 7
		}
		return 0
	}
	a := programBench(t, setup.Options{}, map[string]fake.Program{"npm": npm}).connect(t)
	sb := a.Launch(args{})
	if got := a.Call("packages_install", args{
		"sandbox": sb, "manager": "npm", "packages": []string{"absent"},
	}); got["exit_code"] != 7.0 {
		t.Errorf("a missing package: %v", got)
	}
	for range 2 {
		got := a.Call("packages_install", args{
			"sandbox": sb, "manager": "npm", "packages": []string{"left-pad@1"}, "index_url": "https://example.com",
		})
		const want = "install --global --no-fund --no-audit --registry https://example.com -- left-pad@1\n"
		if got["stdout"] != want || got["exit_code"] != 0.0 {
			t.Errorf("installed: %v", got)
		}
	}
	got := a.Call("exec", args{"sandbox": sb, "command": "readlink /node_modules"})
	if got["stdout"] != "/usr/lib/node_modules\n" {
		t.Errorf("the link: %v", got)
	}
}

// A list of many entries fits a reply.
func TestListsHaveABudget(t *testing.T) {
	b := newBench(t, setup.Options{Toolsets: []string{setup.All}})
	a := b.connect(t)
	for i := range 150 {
		_, err := b.service.Sandboxes.Launch(
			t.Context(), core.Spec{Name: fmt.Sprintf("%s-%d", strings.Repeat("n", 40), i)}, service.LaunchOptions{},
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	if text := textOf(a.result("sandbox_list", nil)); len(text) > 8500 || !strings.Contains(text, " more ...]") {
		t.Errorf("%d bytes: %s", len(text), text[max(0, len(text)-200):])
	}
	sb := a.Launch(args{})
	for range 100 {
		a.Call("exec", args{"sandbox": sb, "argv": []string{"echo", strings.Repeat("word ", 100)}})
	}
	if text := textOf(a.result("exec_list", args{"sandbox": sb})); len(text) > 8500 {
		t.Errorf("the commands have %d bytes", len(text))
	}
}
