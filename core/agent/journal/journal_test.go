package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

func collect(t *testing.T, dir string, opts core.LogOptions) string {
	t.Helper()
	var text strings.Builder
	for record, err := range Records(t.Context(), dir, "1", opts, func() bool { return true }) {
		if err != nil {
			t.Fatal(err)
		}
		text.Write(record.Data)
	}
	return text.String()
}

func TestOutputComesBack(t *testing.T) {
	dir := t.TempDir()
	o, err := Create(dir, "1", 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Write(core.Stdout, []byte("one\ntwo\n"))
	before := time.Now()
	o.Write(core.Stderr, []byte("three\nfour"))
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string]core.LogOptions{
		"one\ntwo\nthree\nfour": {Tail: -1},
		"four":                  {Tail: 1},
		"two\nthree\nfour":      {Tail: 3},
		"":                      {Tail: 0},
		"three\nfour":           {Tail: -1, Since: before},
		"one\ntwo\n":            {Tail: -1, Until: before},
	} {
		if got := collect(t, dir, opts); got != want {
			t.Errorf("%+v: %q, want %q", opts, got, want)
		}
	}
	if s := o.Stats(); s.Stdout != 8 || s.Stderr != 10 || s.Truncated {
		t.Errorf("stats are %+v", s)
	}
}

// No file has the values of secrets, wherever the pieces of output are cut.
func TestSecretsStayOut(t *testing.T) {
	dir := t.TempDir()
	var secrets Secrets
	secrets.Add(map[string]string{"A": "value-one"})
	o, err := Create(dir, "1", 1<<20, secrets.Add(map[string]string{"B": "value-two"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"a valu", "e-o", "ne b", " value-two c val"} {
		o.Write(core.Stdout, []byte(piece))
	}
	o.Settle(core.Stdout)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, dir, core.LogOptions{Tail: -1}); got != "a [redacted] b [redacted] c val" {
		t.Errorf("the journal has %q", got)
	}
	if all := secrets.All(); len(all) != 2 || all[1].Value.Reveal() != "value-two" {
		t.Errorf("known are %d", len(all))
	}
}

func TestRotationKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	o, err := Create(dir, "1", 4000, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		o.Write(core.Stdout, bytes.Repeat([]byte{byte('a' + n%26)}, 100))
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	got := collect(t, dir, core.LogOptions{Tail: -1})
	if last := byte('a' + 99%26); len(got) < 1500 || len(got) > 5000 || got[len(got)-1] != last {
		t.Errorf("%d bytes are kept, the last is %q", len(got), got[len(got)-1])
	}
	if s := o.Stats(); s.Stdout != 10000 || !s.Truncated {
		t.Errorf("stats are %+v", s)
	}
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	o, err := Create(dir, "1", 2000, nil)
	if err != nil {
		t.Fatal(err)
	}
	written, over := 0, make(chan struct{})
	var got strings.Builder
	for record, err := range Records(t.Context(), dir, "1", core.LogOptions{Tail: -1, Follow: true}, func() bool {
		// The writer continues while the reader polls, over several rotations.
		if written == 30 {
			select {
			case <-over:
			default:
				close(over)
			}
			return true
		}
		o.Write(core.Stdout, bytes.Repeat([]byte{byte('A' + written)}, 200))
		written++
		return false
	}) {
		if err != nil {
			t.Fatal(err)
		}
		got.Write(record.Data)
	}
	if got.Len() != 30*200 {
		t.Errorf("%d bytes of %d were seen", got.Len(), 30*200)
	}
	_ = o.Close()
}

func TestEntriesAreFoundByTheirID(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"0", "2", "10"} {
		if err := (Entries{Dir: dir}).Write(core.Exec{ID: id, Command: []string{"x"}, Started: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	execs, err := Entries{Dir: dir}.All()
	if err != nil || len(execs) != 3 || execs[2].ID != "10" {
		t.Errorf("%+v, %v", execs, err)
	}
	for _, id := range []string{
		"../../etc/passwd", "../2", "./2", "2/", "2\x00", "", ".", "-1", strings.Repeat("9", 300),
	} {
		if _, err := (Entries{Dir: dir}).Read(id); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("id %q: %v", id, err)
		}
		for _, err := range Records(t.Context(), dir, id, core.LogOptions{Tail: -1}, func() bool { return true }) {
			t.Errorf("id %q has output, %v", id, err)
		}
	}
	path := filepath.Join(dir, "3.json")
	if _, err := (Entries{Dir: dir}).Read("3"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the error of a damaged entry is %v: it does not name the file", err)
	}
}

func FuzzReadRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add(append(make([]byte, 8), 1, 0, 0, 0, 1, 'x'))
	f.Add(append(make([]byte, 8), 2, 0xff, 0xff, 0xff, 0xff))
	f.Add(appendRecord(nil, time.Unix(1_700_000_000, 0), core.Stderr, []byte("text")))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			record, _, err := readRecord(r)
			if errors.Is(err, io.EOF) || errors.Is(err, errCut) {
				return
			}
			if err != nil {
				return
			}
			if len(record.Data) > MaxRecord {
				t.Errorf("a record of %d bytes", len(record.Data))
			}
		}
	})
}

// An entry that is damaged is listed by its id, and its file is named. The others are listed as ever.
func TestDamagedEntriesAreNamed(t *testing.T) {
	damages := map[string]func(path string) error{
		"empty": func(path string) error { return os.Truncate(path, 0) },
		"cut":   func(path string) error { return os.Truncate(path, 20) },
		"{}":    func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"another's": func(path string) error {
			return os.WriteFile(path, []byte(`{"id":"9","started":"2026-01-02T00:00:00Z"}`), 0o600)
		},
		"not a file": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, id := range []string{"1", "2", "3"} {
				if err := (Entries{Dir: dir}).Write(core.Exec{ID: id, Command: []string{"true"}, Started: time.Now()}); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "2.json")
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			execs, err := Entries{Dir: dir}.All()
			if err != nil || len(execs) != 3 {
				t.Fatalf("%+v, %v", execs, err)
			}
			if execs[1].ID != "2" || execs[1].Exit == nil || !strings.Contains(execs[1].Exit.Message, path) {
				t.Errorf("%+v", execs[1])
			}
			if execs[0].Command == nil || execs[2].Command == nil {
				t.Errorf("the others: %+v", execs)
			}
		})
	}
}

// After a change of any byte, Read returns the original entry or an error that names the file.
func TestEveryChangedByteOfAnEntryIsNamed(t *testing.T) {
	dir := t.TempDir()
	want := core.Exec{
		ID: "1", Command: []string{"make", "-j8"}, Started: time.Unix(1_700_000_000, 5).UTC(),
		Exit: &core.Exit{Code: 7, Message: "a message"}, StdoutBytes: 12_345,
	}
	if err := (Entries{Dir: dir}).Write(want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "1.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range text {
		for bit := range 8 {
			changed := bytes.Clone(text)
			changed[at] ^= 1 << bit
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Entries{Dir: dir}.Read("1")
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("bit %d of byte %d: %+v is believed", bit, at, got)
			}
			if err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("bit %d of byte %d: %v", bit, at, err)
			}
		}
	}
	// Earlier versions wrote no checksum.
	old := `{"id":"1","command":["true"],"started":"2026-01-02T00:00:00Z"}`
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (Entries{Dir: dir}).Read("1"); err != nil || got.Command[0] != "true" {
		t.Errorf("without a checksum: %+v, %v", got, err)
	}
}

// The entry command of a sandbox that was killed and started again writes to the same file.
func TestTornRecordDoesNotHideTheNext(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "1.log")
	write := func(text string) {
		t.Helper()
		o, err := Create(dir, "1", 1<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		o.Write(core.Stdout, []byte(text))
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for cut := range int64(headerSize + 2*sumSize + len("torn")) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		write("one ")
		write("torn")
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()-1-cut); err != nil {
			t.Fatal(err)
		}
		if got := collect(t, dir, core.LogOptions{Tail: -1}); got != "one " {
			t.Errorf("cut by %d: %q", cut+1, got)
		}
		write("two")
		if got := collect(t, dir, core.LogOptions{Tail: -1}); got != "one two" {
			t.Errorf("cut by %d, and then written: %q", cut+1, got)
		}
	}
}

// A changed byte of the output is an error that names the file. The records before it are read.
func TestEveryChangedByteOfOutputIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "1.log")
	var text []byte
	for i, piece := range []string{"first", "second", "third"} {
		stream := []core.Stream{core.Stdout, core.Stderr}[i%2]
		text = appendRecord(text, time.Unix(1_700_000_000, int64(i)), stream, []byte(piece))
	}
	const whole = "firstsecondthird"
	left := []string{"secondthird", "firstthird", "firstsecond"} // all but the changed record
	for at := range text {
		for change := 1; change < 256; change *= 2 {
			changed := bytes.Clone(text)
			changed[at] ^= byte(change)
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			got, last := "", error(nil)
			for record, err := range Records(t.Context(), dir, "1", core.LogOptions{Tail: -1}, func() bool { return true }) {
				got += string(record.Data)
				last = err
			}
			if last == nil || !strings.Contains(last.Error(), path) || !slices.Contains(left, got) {
				t.Fatalf("byte %d changed by %#x: %q, %v", at, change, got, last)
			}
		}
	}
	// Earlier versions wrote no checksums. A journal can have both kinds.
	old := append([]byte{0, 0, 0, 0, 0, 0, 0, 1, stderrTag, 0, 0, 0, 4}, "old "...)
	if err := os.WriteFile(path, append(old, text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, dir, core.LogOptions{Tail: -1}); got != "old "+whole {
		t.Errorf("after a record without checksums: %q", got)
	}
}

// A damaged record does not hide the later ones.
func TestDamagedRecordHidesNoOther(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "1.log")
	pieces := []string{"first ", strings.Repeat("second ", 1<<18), "third"}
	var text []byte
	var begins []int
	for i, piece := range pieces {
		begins = append(begins, len(text))
		text = appendRecord(text, time.Unix(1_700_000_000, int64(i)), core.Stdout, []byte(piece))
	}
	for at := begins[1]; at < begins[1]+headerSize+sumSize+20; at++ {
		changed := bytes.Clone(text)
		changed[at] ^= 0x55
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tail := range []int{-1, 100} {
			got, last := "", error(nil)
			for record, err := range Records(
				t.Context(), dir, "1", core.LogOptions{Tail: tail}, func() bool { return true },
			) {
				got += string(record.Data)
				last = err
			}
			named := last != nil && strings.Contains(last.Error(), fmt.Sprintf("%s is damaged at byte %d", path, begins[1]))
			if got != "first third" || !named {
				t.Fatalf("byte %d changed: %.40q, %v", at, got, last)
			}
		}
	}
}

func TestDamagedOutputIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "1.log")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range Records(t.Context(), dir, "1", core.LogOptions{Tail: -1}, func() bool { return true }) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), path) {
		t.Errorf("%v", last)
	}
}

// An entry is read only if the journal's key signed it for its command.
func TestOnlySignedEntries(t *testing.T) {
	entries := Entries{Dir: t.TempDir(), Key: []byte("key")}
	genuine := core.Exec{ID: "1", Command: []string{"make", "<a>"}, Started: time.Now().UTC()}
	forged := core.Exec{ID: "2", Command: []string{"rm", "-rf", "/"}, Actor: "cli", Started: time.Now().UTC()}
	if err := errors.Join(
		entries.Write(genuine),
		Entries{Dir: entries.Dir}.Write(forged),
	); err != nil {
		t.Fatal(err)
	}
	if got, err := entries.Read("1"); err != nil || !reflect.DeepEqual(got, genuine) {
		t.Errorf("the genuine entry: %+v, %v", got, err)
	}
	read := func(what string) {
		t.Helper()
		got, err := entries.Read("2")
		if err == nil || !reflect.DeepEqual(got, core.Exec{}) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		all, err := entries.All()
		if err != nil || len(all) != 2 || all[0].Damaged() || !all[1].Damaged() || all[1].Command != nil {
			t.Errorf("%s: %+v, %v", what, all, err)
		}
	}
	read("unsigned")
	if err := (Entries{Dir: entries.Dir, Key: []byte("other")}).Write(forged); err != nil {
		t.Fatal(err)
	}
	read("another key")
	text, err := os.ReadFile(filepath.Join(entries.Dir, "1.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(entries.Dir, "2.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	read("another command's entry")
}
