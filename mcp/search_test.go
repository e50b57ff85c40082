package mcp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// project is an assistant with a sandbox that has a small project in /app.
func project(t *testing.T, opts setup.Options) (*bench, *assistant, string) {
	t.Helper()
	b := newBench(t, opts)
	a := b.connect(t)
	sb := a.Launch(args{"workdir": "/app", "secrets": map[string]string{"KEY": "very-secret"}})
	for name, content := range map[string]string{
		"main.go":             "package main\n\nfunc main() {\n\trun()\n}\n",
		"run.go":              "package main\n\n// run runs.\nfunc run() {}\n",
		"sub/deep/x_test.go":  "func TestRun() { run() }\n",
		"sub/.gitignore":      "*.log\n",
		"sub/out.log":         "run run run\n",
		".gitignore":          "build/\n",
		"build/gen.go":        "func run2() {}\n",
		".git/config":         "run = true\n",
		".github/ci.yml":      "run: go test\n",
		"data.bin":            "run\x00run\n",
		"key.txt":             "a very-secret run\n",
		"README.md":           "Run it.\n",
		"long.txt":            strings.Repeat("x", 5000) + "run" + strings.Repeat("y", 5000) + "\n",
		"sub/with space.conf": "[run]\n",
	} {
		a.Call("file_write", args{"sandbox": sb, "path": "/app/" + name, "content": content})
	}
	return b, a, sb
}

func TestSearchFiles(t *testing.T) {
	_, a, sb := project(t, setup.Options{})
	search := func(with args) string {
		t.Helper()
		with["sandbox"] = sb
		return textOf(a.result("file_search", with))
	}
	for _, test := range []struct {
		name string
		with args
		want string
	}{
		{
			"Go files",
			args{"pattern": `\brun\(`, "glob": []string{"*.go"}},
			"/app/main.go\n4:\trun()\n\n/app/run.go\n4:func run() {}\n\n/app/sub/deep/x_test.go\n" +
				"1:func TestRun() { run() }\n[matching lines: 3; files searched: 3]",
		},
		{
			"without tests",
			args{"pattern": `run\(`, "glob": []string{"*.go", "!*_test.go"}},
			"/app/main.go\n4:\trun()\n\n/app/run.go\n4:func run() {}\n[matching lines: 2; files searched: 2]",
		},
		{
			"below a directory",
			args{"pattern": `run`, "path": "sub"},
			"/app/sub/deep/x_test.go\n1:func TestRun() { run() }\n\n/app/sub/with space.conf\n1:[run]\n" +
				"[matching lines: 2; files searched: 2]",
		},
		{
			"with context",
			args{"pattern": `run\(\)`, "path": "/app/main.go", "context": 1},
			"/app/main.go\n3-func main() {\n4:\trun()\n5-}\n[matching lines: 1; files searched: 1]",
		},
		{
			"apart",
			args{"pattern": `package|^}`, "path": "/app/main.go", "context": 1},
			"/app/main.go\n1:package main\n2-\n--\n4-\trun()\n5:}\n[matching lines: 2; files searched: 1]",
		},
		{
			"ignoring case",
			args{"pattern": `^RUN it`, "ignore_case": true, "glob": []string{"*.md"}},
			"/app/README.md\n1:Run it.\n[matching lines: 1; files searched: 1]",
		},
		{
			"hidden and ignored",
			args{"pattern": `^run`, "all": true},
			"/app/.git/config\n1:run = true\n\n/app/.github/ci.yml\n1:run: go test\n\n/app/sub/out.log\n1:run run run\n" +
				"[matching lines: 3; files searched: 14]",
		},
		{
			"a secret",
			args{"pattern": `very|redacted`, "glob": []string{"key.txt"}},
			"/app/key.txt\n1:a [redacted] run\n[matching lines: 1; files searched: 1]",
		},
		{"nothing", args{"pattern": `absent`, "glob": []string{"*.md"}}, "[matching lines: 0; files searched: 1]"},
	} {
		if got := search(test.with); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
	if got := search(args{"pattern": "run", "path": "long.txt"}); len(got) > 1000 || !strings.Contains(got, "xrunyyy") {
		t.Errorf("a long line: %s", got)
	}
	a.Call("exec", args{"sandbox": sb, "command": "ln -s /app/sub /link"})
	if got := search(args{"pattern": "run", "path": "/link"}); !strings.HasPrefix(got, "/link/deep/x_test.go\n1:") {
		t.Errorf("through a link: %s", got)
	}
	if text := a.fails(core.KindUsage, "file_search", args{"sandbox": sb, "pattern": "(?=x)"}); !strings.Contains(
		text, "RE2",
	) {
		t.Errorf("look-ahead: %s", text)
	}
	a.fails(core.KindNotFound, "file_search", args{"sandbox": sb, "pattern": "x", "path": "/none"})
}

// The reply fits the budget, and says that there is more.
func TestSearchHasABudget(t *testing.T) {
	_, a, sb := project(t, setup.Options{})
	for i := range 20 {
		a.Call("file_write", args{
			"sandbox": sb, "path": fmt.Sprintf("/many/%02d.txt", i), "content": strings.Repeat("needle\n", 100),
		})
	}
	result := a.result("file_search", args{"sandbox": sb, "pattern": "needle", "path": "/many", "max_output": 1000})
	text := textOf(result)
	if len(text) > 1200 || !strings.Contains(text, "[... incomplete: there is more; ") {
		t.Errorf("%d characters: %s", len(text), text)
	}
	text = textOf(a.result("file_find", args{"sandbox": sb, "path": "/many", "max_output": 200}))
	if len(text) > 400 || !strings.Contains(text, "/many/00.txt\n") || !strings.Contains(text, "incomplete") {
		t.Errorf("found: %s", text)
	}
}

func TestFindFiles(t *testing.T) {
	_, a, sb := project(t, setup.Options{})
	find := func(with args) string {
		t.Helper()
		with["sandbox"] = sb
		return textOf(a.result("file_find", with))
	}
	for _, test := range []struct {
		with args
		want string
	}{
		{args{"glob": []string{"*.go"}}, "/app/main.go\n/app/run.go\n/app/sub/deep/x_test.go"},
		{args{"glob": []string{"*.go", "!*_test.go"}}, "/app/main.go\n/app/run.go"},
		{args{"glob": []string{"sub/**/*.go"}}, "/app/sub/deep/x_test.go"},
		{args{"path": "sub"}, "/app/sub/deep/\n/app/sub/with space.conf\n/app/sub/deep/x_test.go"},
		{
			args{"path": "sub", "all": true, "glob": []string{"*.log", ".gitignore"}},
			"/app/sub/.gitignore\n/app/sub/out.log",
		},
		{args{"glob": []string{"build/"}, "all": true}, "/app/build/\n/app/build/gen.go"},
		{args{"glob": []string{"none"}}, "no files"},
	} {
		if got := find(test.with); got != test.want {
			t.Errorf("%v: got\n%s\nwant\n%s", test.with, got, test.want)
		}
	}
	a.fails(core.KindNotFound, "file_find", args{"sandbox": sb, "path": "/none"})
}

// A search of files that do not come ends at the soft deadline, without an error.
func TestSearchEndsAtTheDeadline(t *testing.T) {
	b := newBench(t, setup.Options{SoftDeadline: time.Second})
	a := b.connect(t)
	sb := a.Launch(args{})
	b.provider.Inject(fake.OpRead, fake.Fault{Delay: patience})
	text := textOf(a.result("file_search", args{"sandbox": sb, "pattern": "run"}))
	if !strings.Contains(text, "incomplete: stopped after 1s") || !strings.Contains(text, "[matching lines: 0; ") {
		t.Errorf("searched: %s", text)
	}
	text = textOf(a.result("file_find", args{"sandbox": sb}))
	if !strings.Contains(text, "incomplete: stopped after 1s") {
		t.Errorf("found: %s", text)
	}
}
