package rest_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/mcp/rest"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// The document in the repository is the one that servers serve.
func TestDocumentIsUpToDate(t *testing.T) {
	got, err := rest.Document()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "docs", "openapi.json")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/openapi.json is old; run: go test ./mcp/rest -update (-old +new)\n%s", diff)
	}
}
