package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// effort is what a task costs a model.
type effort struct {
	tasks, calls int
	// out are the tokens of the arguments that the model writes, in those of the results that it reads.
	out, in int
	// deadEnds are calls whose result is an error.
	deadEnds int
}

func (e *effort) add(other effort) {
	e.tasks, e.calls, e.out, e.in, e.deadEnds =
		e.tasks+other.tasks, e.calls+other.calls, e.out+other.out, e.in+other.in, e.deadEnds+other.deadEnds
}

// taskGroups are the groups of tasks, in the order of the table: the first part of a file's name.
func taskGroups() []string {
	return []string{"build", "debug", "data", "files", "jobs", "servers", "packages", "gpu", "cleanup"}
}

// The tasks below testdata/tasks are the calls that a careful reader of the default tools' descriptions makes. A line
// "> TOOL ARGUMENTS" is a call, and the lines "< TEXT" after it have parts of its result. "! TOOL ARGUMENTS" is a call
// that fails. "$ COMMAND" prepares the sandbox and does not count. docs/mcp.md shows the sums; UPDATE=1 rewrites them.
func TestTasks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "tasks", "*.txt"))
	if err != nil || len(files) != 30 {
		t.Fatalf("%d tasks, %v", len(files), err)
	}
	sums := map[string]*effort{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		group, _, _ := strings.Cut(name, "-")
		if !slices.Contains(taskGroups(), group) {
			t.Fatalf("%s is in no group", name)
		}
		if sums[group] == nil {
			sums[group] = &effort{}
		}
		t.Run(name, func(t *testing.T) { sums[group].add(runTask(t, file)) })
	}
	if !t.Failed() {
		checkTaskTable(t, sums)
	}
}

// runTask runs the calls of a task.
func runTask(t *testing.T, file string) effort {
	t.Helper()
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in.txt"), "in\n")
	provider := fake.New(fake.Options{
		Also: []core.Capability{core.CapGPU}, GPUs: map[string]int{"T4": 1}, Programs: taskPrograms(),
	})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{provider.Factory()}})
	a := benchOver(t, provider, svc, setup.Options{AllowPaths: []string{dir}}).connect(t)
	sum, exec, text := effort{tasks: 1}, "", ""
	var again func() string // looks once more at a running command
	for line := range strings.Lines(string(script)) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch kind {
		case "#":
		case "$":
			if got := a.Call("exec", args{"sandbox": "dev", "command": rest}); got["exit_code"] != 0.0 {
				t.Fatalf("%s: %v", rest, got)
			}
		case ">", "!":
			tool, encoded, _ := strings.Cut(rest, " ")
			encoded = strings.ReplaceAll(encoded, "{exec}", exec)
			var arguments args
			if err := json.Unmarshal([]byte(encoded), &arguments); err != nil {
				t.Fatalf("%s: %v", rest, err)
			}
			result := a.result(tool, arguments)
			text, again = textOf(result), nil
			if tool == "exec_wait" && arguments["stdin"] == nil {
				again = func() string { return textOf(a.result(tool, arguments)) }
			}
			if result.IsError != (kind == "!") {
				t.Fatalf("%s: %s", rest, text)
			}
			if record, _ := result.StructuredContent.(map[string]any); record["exec_id"] != nil {
				exec, _ = record["exec_id"].(string)
			}
			sum.calls++
			sum.out += (len(tool) + len(encoded)) / bytesPerToken
			sum.in += len(stable(text)) / bytesPerToken
			if result.IsError {
				sum.deadEnds++
			}
		case "<":
			if again != nil && !strings.Contains(text, rest) { // its output is not there yet
				sum.in -= len(stable(text)) / bytesPerToken
				eventually(t, rest, func() bool { text = again(); return strings.Contains(text, rest) })
				sum.in += len(stable(text)) / bytesPerToken
			}
			if !strings.Contains(text, rest) {
				t.Fatalf("%q is not in %s", rest, text)
			}
		default:
			t.Fatalf("what is %q?", line)
		}
	}
	return sum
}

// stable replaces the parts of a result whose length differs between runs.
func stable(text string) string {
	text = regexp.MustCompile(`\bfak-[a-z0-9]{8}\b`).ReplaceAllString(text, "fak-sandboxx") // an id may end in "2s"
	text = regexp.MustCompile(`\d+(\.\d+)?s\b`).ReplaceAllString(text, "1s")
	return regexp.MustCompile(`(/[A-Za-z0-9._-]+)*/TestTasks[A-Za-z0-9._/-]*`).ReplaceAllString(text, "/dir")
}

// taskPrograms are interpreters and package managers that know what the tasks need.
func taskPrograms() map[string]fake.Program {
	printed := regexp.MustCompile(`(?:print|console\.log)\("([^"]*)"\)`)
	interpreter := func(_ context.Context, c *fake.Call) int {
		if c.Args[1] == "-m" { // pip
			name := c.Args[len(c.Args)-1]
			if name == "absent" {
				_, _ = fmt.Fprintln(c.Stderr, "ERROR: No matching distribution found for absent")
				return 1
			}
			_, _ = fmt.Fprintln(c.Stdout, "Successfully installed "+name)
			return 0
		}
		code := c.Args[len(c.Args)-1]
		for _, match := range printed.FindAllStringSubmatch(code, -1) {
			_, _ = fmt.Fprintln(c.Stdout, match[1])
		}
		if _, name, raises := strings.Cut(code, "raise "); raises {
			_, _ = fmt.Fprintln(c.Stderr, "Traceback (most recent call last):\n  File \"<string>\", line 1\n"+name)
			return 1
		}
		return 0
	}
	npm := func(_ context.Context, c *fake.Call) int {
		if c.Args[1] == "root" {
			_, _ = fmt.Fprintln(c.Stdout, "/usr/lib/node_modules")
			return 0
		}
		_, _ = fmt.Fprintln(c.Stdout, "added "+c.Args[len(c.Args)-1])
		return 0
	}
	return map[string]fake.Program{"python3": interpreter, "node": interpreter, "npm": npm}
}

// checkTaskTable compares the sums with the table in docs/mcp.md.
func checkTaskTable(t *testing.T, sums map[string]*effort) {
	t.Helper()
	const begin, end = "<!-- tasks -->\n", "<!-- end of tasks -->\n"
	var table strings.Builder
	table.WriteString("\n| tasks | calls | tokens written | tokens read | dead ends |\n| --- | --- | --- | --- | --- |\n")
	var all effort
	row := func(name string, e effort) {
		fmt.Fprintf(&table, "| %d %s | %d | %d | %d | %d |\n", e.tasks, name, e.calls, e.out, e.in, e.deadEnds)
	}
	for _, group := range taskGroups() {
		row(group, *sums[group])
		all.add(*sums[group])
	}
	row("together", all)
	table.WriteString("\n")
	file := filepath.Join("..", "docs", "mcp.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("docs/mcp.md has no place for the table")
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != table.String() {
		t.Errorf("docs/mcp.md shows\n%s\nand the tasks need\n%s", was, table.String())
	}
}
