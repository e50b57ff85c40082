// Package docs holds the documentation. Its test keeps the prose of the whole repository plain.
package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// banned has phrases that a reader stumbles over, and better ones. CONTRIBUTING.md explains the style.
var banned = []struct{ pattern, better string }{
	{`\banew\b`, "again"},
	{`\bwhoever\b`, "the user, the client, the process"},
	{`\b(is|are) told\b`, "gets, receives, returns"},
	{`\bgoes on\b`, "continues, keeps running"},
	{`\bfor ever\b`, "forever, without a limit"},
	{`\bsays? so\b`, "returns an error, reports it"},
	{`\bby itself\b`, "alone, automatically"},
	{`\b(that|which|when|where|as|and|for|by|to) nobody\b|^(?-i:Nobody)\b`, "no process, no user, no caller"},
	{`(^|[.;:!?]\s+)What\s[^?]*[.;]`, "begin with the thing itself"},
	{`\b(somebody|anybody)\b`, "a user, a process, another client"},
	{`\b(broke|broken|breaks) off\b`, "was interrupted, ended early, was closed"},
	{`\bany more\b`, "no longer"},
	{`\bmend(s|ed)?\b`, "correct, fix"},
	{`\bbec(a|o)mes? of\b`, "the result, the state"},
	{`\b(colour|behaviour|favour|honour|neighbour|grey)`, "American spelling"},
}

// TestProse checks comments and strings of Go files, and every line of documents and test stories.
func TestProse(t *testing.T) {
	t.Parallel()
	patterns := make([]*regexp.Regexp, len(banned))
	for i, b := range banned {
		patterns[i] = regexp.MustCompile(`(?i)` + b.pattern)
		if strings.Contains(b.pattern, "What") {
			patterns[i] = regexp.MustCompile(b.pattern)
		}
	}
	checked := 0
	check := func(path string, line int, text string) {
		for i, pattern := range patterns {
			if found := pattern.FindString(text); found != "" {
				t.Errorf("%s:%d: %q: write: %s", path, line, strings.TrimSpace(found), banned[i].better)
			}
		}
	}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "build", "dist", "node_modules"}, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Base(path) == "prose_test.go":
			return nil
		}
		switch filepath.Ext(path) {
		case ".go":
			checked++
			return checkGo(path, check)
		case ".md", ".txtar", ".yml", ".yaml":
			checked++
			return checkLines(path, check)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 100 {
		t.Errorf("only %d files were checked", checked)
	}
}

// longest is the number of words that a sentence of a document may have.
const longest = 25

var (
	// code are blocks and tables, where a line is no sentence.
	code     = regexp.MustCompile(`(?m)^(    .*|\|.*|#.*|!?\[.*)$`)
	link     = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`) // one word
	item     = regexp.MustCompile(`\n\s*(?:[-*]|\d+\.)\s`)
	sentence = regexp.MustCompile(`[.?!:;]["*)]*\s+`)
)

// TestSentencesAreShort counts the words of each sentence in the documents. Those of docs/cli are generated from help.
func TestSentencesAreShort(t *testing.T) {
	t.Parallel()
	var documents []string
	for _, pattern := range []string{"../*.md", "*.md", "adr/*.md", "../examples/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	if len(documents) < 20 {
		t.Errorf("only %d documents were read", len(documents))
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		prose := item.ReplaceAllString(link.ReplaceAllString(code.ReplaceAllString(string(text), ""), "link"), "\n\n")
		for paragraph := range strings.SplitSeq(prose, "\n\n") {
			for _, s := range sentence.Split(paragraph, -1) {
				if words := strings.Fields(s); len(words) > longest {
					t.Errorf("%s: %d words: %s", document, len(words), strings.Join(words, " "))
				}
			}
		}
	}
}

// checkGo passes each comment line and each string literal of a Go file to check.
func checkGo(path string, check func(path string, line int, text string)) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return nil
		}
		if kind != token.COMMENT && kind != token.STRING {
			continue
		}
		first := files.Position(at).Line
		for i, line := range strings.Split(literal, "\n") {
			check(path, first+i, strings.TrimLeft(line, "/\t \"`"))
		}
	}
}

func checkLines(path string, check func(path string, line int, text string)) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(source), "\n") {
		check(path, i+1, line)
	}
	return nil
}
