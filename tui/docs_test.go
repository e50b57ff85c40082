package tui

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/dashboard.md lists every command with its keys. To update: UPDATE=1 go test ./tui -run TestPage
func TestPageListsTheCommands(t *testing.T) {
	const page, head = "../docs/dashboard.md", "## Commands for `ui.keys`\n\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no %q", page, head)
	}
	var b strings.Builder
	b.WriteString(before + head + "| command | keys | what it does |\n| --- | --- | --- |\n")
	for _, c := range allCommands() {
		var keys []string
		for _, k := range c.keys {
			keys = append(keys, "`"+strings.ReplaceAll(k, "|", `\|`)+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.id, strings.Join(keys, " "), strings.TrimSuffix(c.title, " …"))
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != string(text) {
		t.Errorf("%s does not list the current commands; update it with: UPDATE=1 go test ./tui -run TestPage", page)
	}
}
