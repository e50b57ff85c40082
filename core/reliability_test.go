package core_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each test that docs/reliability.md names exists.
func TestReliabilityNamesTests(t *testing.T) {
	page, err := os.ReadFile("../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"), strings.Contains(path, "providertest"+string(filepath.Separator)):
			text, err := os.ReadFile(path)
			sources.Write(text)
			return err
		case strings.HasSuffix(path, ".txtar"):
			sources.WriteString("\nstory " + entry.Name() + "\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+|[a-z-]+\\.txtar)`").FindAllStringSubmatch(string(page), -1)
	for _, name := range names {
		test, story := "\nfunc "+name[1]+"(", "\nstory "+name[1]+"\n"
		if !strings.Contains(sources.String(), test) && !strings.Contains(sources.String(), story) {
			t.Errorf("there is no test %s", name[1])
		}
	}
	if len(names) < 40 {
		t.Errorf("the page names %d tests: it was not understood", len(names))
	}
}
