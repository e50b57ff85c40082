package sparse

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func FuzzWriter(f *testing.F) {
	f.Add([]byte("text"), 0, 3)
	f.Add([]byte{}, 2*holeSize, 1)
	f.Add([]byte("end"), holeSize-1, 2*holeSize)
	f.Fuzz(func(t *testing.T, data []byte, zeros, piece int) {
		if zeros < 0 || zeros > 1<<20 || piece < 1 || piece > 1<<20 {
			return
		}
		want := append(append(make([]byte, zeros), data...), make([]byte, zeros)...)
		path := filepath.Join(t.TempDir(), "file")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(file)
		for rest := want; len(rest) > 0; {
			n, err := w.Write(rest[:min(piece, len(rest))])
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := errors.Join(w.Finish(), file.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes were written as %d, %v", len(want), len(got), err)
		}
	})
}
