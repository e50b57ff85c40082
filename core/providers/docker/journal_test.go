package docker

import (
	"archive/tar"
	"bytes"
	"os"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// Files that root in a sandbox adds to its journal cost this machine nothing. An invalid journal is refused before it
// is read.
func TestHostileJournal(t *testing.T) {
	for name, test := range map[string]struct {
		headers []tar.Header
		kind    core.Kind
	}{
		"others": {headers: []tar.Header{
			{Name: "journal/1.json", Typeflag: tar.TypeReg, Size: 2},
			{Name: "journal/2.log", Typeflag: tar.TypeReg, Size: 2},
			{Name: "journal/../../1.json", Typeflag: tar.TypeReg, Size: 2},
			{Name: "journal/1.log", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		}},
		"large": {headers: []tar.Header{{Name: "journal/1.log", Typeflag: tar.TypeReg, Size: maxJournal +
			1}}, kind: core.KindExhausted},
		"many": {headers: []tar.Header{
			{Name: "journal/1.json", Typeflag: tar.TypeReg, Size: 2},
			{Name: "journal/1.log", Typeflag: tar.TypeReg, Size: maxJournal - 1},
		}, kind: core.KindExhausted},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, h := range test.headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size == 2 {
				_, _ = w.Write([]byte("{}"))
			}
		}
		dir := t.TempDir()
		err := unpackJournal(dir, &archive, filesOf("1"))
		if test.kind != 0 {
			wantKind(t, err, test.kind)
			continue
		}
		entries, readErr := os.ReadDir(dir)
		if readErr != nil || len(entries) != 1 || entries[0].Name() != "1.json" {
			t.Errorf("%s: unpacked were %v, %v, %v", name, entries, err, readErr)
		}
	}
}
