package docker

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// failing is content whose read fails.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk has failed") }

// A failed write leaves nothing inside, neither a file nor the entries of an archive.
func TestBrokenWriteLeavesNothing(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		for name, change := range map[string]func(*Options){"direct": nil, "through the engine": throughEngine} {
			t.Run(name, func(t *testing.T) {
				p := e.open(t, change)
				id := box(t, p, nil).ID
				if err := p.Mkdir(t.Context(), id, "/tmp/dir", false); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					content := io.MultiReader(strings.NewReader(strings.Repeat("new", 1<<20)), failing{})
					err := p.WriteFile(t.Context(), id, "/tmp/dir/file", content, core.WriteOptions{})
					if err == nil || !strings.Contains(err.Error(), "the disk has failed") {
						t.Fatalf("a broken write: %v", err)
					}
					if infos, err := p.ReadDir(t.Context(), id, "/tmp/dir"); err != nil || len(infos) != 0 {
						t.Fatalf("after it the directory has %+v, %v", infos, err)
					}
				}
			})
		}
	})
}
