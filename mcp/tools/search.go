package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/transfer"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type searchIn struct {
	Sandbox    string   `json:"sandbox"`
	Pattern    string   `json:"pattern" jsonschema:"regular expression (RE2)"`
	Path       string   `json:"path,omitempty" jsonschema:"directory or file; default: the working directory"`
	Glob       []string `json:"glob,omitempty" jsonschema:"only these files, as in .gitignore: *.go, !*_test.go, src/**"`
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Context    int      `json:"context,omitempty" jsonschema:"lines before and after each match"`
	All        bool     `json:"all,omitempty" jsonschema:"also hidden files and those in .gitignore"`
	Budget     int      `json:"max_output,omitempty"`
}

type searchOut struct {
	// Matches are the lines of the reply that match, Files the files that were searched.
	Matches int  `json:"matches"`
	Files   int  `json:"files_searched"`
	More    bool `json:"incomplete,omitempty"`

	lines string
}

// Text implements texter.
func (o searchOut) Text() string { return o.lines }

type findIn struct {
	Sandbox string   `json:"sandbox"`
	Glob    []string `json:"glob,omitempty" jsonschema:"only these names, as in .gitignore: *.go, !vendor/, src/**"`
	Path    string   `json:"path,omitempty" jsonschema:"directory; default: the working directory"`
	All     bool     `json:"all,omitempty" jsonschema:"also hidden files and those in .gitignore"`
	Budget  int      `json:"max_output,omitempty"`
}

type findOut struct {
	Paths []string `json:"paths"`
	More  bool     `json:"incomplete,omitempty"`

	why string
}

// Text implements texter.
func (o findOut) Text() string {
	lines := o.Paths
	if len(lines) == 0 {
		lines = []string{"no files"}
	}
	if o.More {
		lines = append(slices.Clip(lines), "[... incomplete: "+o.why+" ...]")
	}
	return strings.Join(lines, "\n")
}

func searchTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "file_search", Title: "Search in files", Toolset: setup.Files, ReadOnly: true, Idempotent: true,
			Description: "Search the text files below a path for lines that match a pattern. Returns paths, line " +
				"numbers and " +
				"lines, like ripgrep, and needs no program in the sandbox.",
		}, searchFiles),
		Define(Tool{
			Name: "file_find", Title: "Find files", Toolset: setup.Files, ReadOnly: true, Idempotent: true,
			Description: "Find files and directories by name, at any depth below a path. Directories end with a slash.",
		}, findFiles),
	}
}

const (
	// maxContext bounds the context of a match, in lines.
	maxContext = 50
	// maxMatchLine bounds a line in the result of a search, in characters.
	maxMatchLine = 400
	narrower     = "name a narrower path or glob"
)

// tree returns the part of a sandbox that a search looks at.
func tree(sb core.Sandbox, name string, globs []string, all bool) transfer.Tree {
	if name == "" {
		name = "."
	}
	return transfer.Tree{Sandbox: sb.Ref(), Path: Absolute(sb, name), Globs: globs, All: all}
}

// bounded limits work to the soft deadline. ended reports that an error is that of the deadline.
func (c *Call) bounded(ctx context.Context) (
	limited context.Context, cancel context.CancelFunc, ended func(err error) bool,
) {
	limited, cancel = context.WithTimeout(ctx, c.Host.Options.SoftDeadline)
	return limited, cancel, func(err error) bool {
		return err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded)
	}
}

// searchFiles searches file contents. Its time is bounded by the soft deadline, and its text by the budget.
func searchFiles(ctx context.Context, c *Call, in searchIn) (searchOut, error) {
	pattern := in.Pattern
	if in.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil || in.Pattern == "" {
		return searchOut{}, core.Errorf(core.KindUsage, "search", "", "%q is not a pattern: %w", in.Pattern, err).
			WithHint("the syntax is RE2, without look-around; a backslash escapes special characters")
	}
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return searchOut{}, err
	}
	redactor := c.Host.Secrets.Of(sb.ID)
	limited, cancel, ended := c.bounded(ctx)
	defer cancel()
	shown := hits{left: c.Budget(in.Budget), pattern: compiled, clean: redactor.Clean, context: in.Context > 0}
	result, err := transfer.Search(limited, c.Service.Files, transfer.SearchRequest{
		Tree: tree(sb, in.Path, in.Glob, in.All), Pattern: compiled, Context: min(max(in.Context, 0), maxContext),
		Clean: func(content io.Reader) io.Reader { return redactor.Reader(content) },
	}, shown.add)
	out := searchOut{Matches: shown.matches, Files: result.Files, More: !result.Complete}
	why := "there is more; raise max_output or " + narrower
	switch {
	case ended(err):
		out.More, why = true, fmt.Sprintf("stopped after %s; %s", c.Host.Options.SoftDeadline, narrower)
	case err != nil:
		return searchOut{}, err
	}
	if out.More {
		fmt.Fprintf(&shown.text, "[... incomplete: %s ...]\n", why)
	}
	fmt.Fprintf(&shown.text, "[matching lines: %d; files searched: %d]", out.Matches, out.Files)
	out.lines = shown.text.String()
	return out, nil
}

// hits renders the lines of a search as ripgrep does with headings.
type hits struct {
	left    int // characters
	pattern *regexp.Regexp
	clean   func(text string) string
	context bool

	text    strings.Builder
	file    string
	last    int // number of the line before
	matches int
}

// add adds a line. It returns false when the budget is used up.
func (h *hits) add(file string, line transfer.Line) bool {
	var b strings.Builder
	switch {
	case file != h.file:
		if h.file != "" {
			b.WriteByte('\n')
		}
		b.WriteString(strings.ToValidUTF8(h.clean(file), "\uFFFD") + "\n")
	case h.context && line.Number > h.last+1:
		b.WriteString("--\n")
	}
	mark := "-"
	if line.Match {
		mark = ":"
	}
	fmt.Fprintf(&b, "%d%s%s\n", line.Number, mark, h.cut(line))
	if h.left -= utf8.RuneCountInString(b.String()); h.left < 0 && h.matches > 0 {
		return false
	}
	h.text.WriteString(b.String())
	h.file, h.last = file, line.Number
	if line.Match {
		h.matches++
	}
	return h.left >= 0
}

// cut returns the part of a long line that has the match.
func (h *hits) cut(line transfer.Line) string {
	text := strings.ToValidUTF8(line.Text, "\uFFFD")
	if utf8.RuneCountInString(text) <= maxMatchLine {
		return text
	}
	begin := 0
	if at := h.pattern.FindStringIndex(text); at != nil {
		begin = max(0, at[0]-maxMatchLine/4)
	}
	part := reply.TrimStart([]byte(text[begin:]))
	shown := string(reply.FirstRunes(part, maxMatchLine))
	if begin > 0 {
		shown = "…" + shown
	}
	if len(shown) < len(text) && !strings.HasSuffix(text, shown) {
		shown += "…"
	}
	return shown
}

// findFiles finds files by name. Its time is bounded by the soft deadline, and its text by the budget.
func findFiles(ctx context.Context, c *Call, in findIn) (findOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return findOut{}, err
	}
	limited, cancel, ended := c.bounded(ctx)
	defer cancel()
	out, left := findOut{Paths: []string{}, why: "there is more; raise max_output or " + narrower}, c.Budget(in.Budget)
	complete, err := transfer.Find(limited, c.Service.Files, tree(sb, in.Path, in.Glob, in.All),
		func(info core.FileInfo) bool {
			name := strings.ToValidUTF8(c.Host.Secrets.Clean(sb.ID, info.Path), "\uFFFD")
			if info.Mode.IsDir() {
				name += "/"
			}
			if left -= utf8.RuneCountInString(name) + 1; left < 0 && len(out.Paths) > 0 {
				return false
			}
			out.Paths = append(out.Paths, name)
			return true
		})
	out.More = !complete
	if ended(err) {
		out.More, out.why, err = true, fmt.Sprintf("stopped after %s; %s", c.Host.Options.SoftDeadline, narrower), nil
	}
	return out, err
}
