//go:build linux

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// damages are the kinds of damage to a stored file.
func damages() map[string]func(path string) error {
	return map[string]func(path string) error{
		"truncated": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()/2)
		},
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"flipped": flip,
		"{}":      func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"missing": os.Remove,
		"a link":  func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
		"a FIFO":  func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
	}
}

// flip changes one bit in the middle.
func flip(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text[len(text)/2] ^= 1
	return os.WriteFile(path, text, 0o600)
}

type kept struct {
	Text string `json:"text"`
}

func TestDamagedFileIsReadFromItsCopy(t *testing.T) {
	for name, damage := range damages() {
		for _, writes := range []int{1, 2} {
			path := filepath.Join(t.TempDir(), "kept.json")
			for n := range writes {
				if err := WriteJSON(path, kept{fmt.Sprint("<", n)}, n == 0); err != nil {
					t.Fatal(err)
				}
			}
			want := kept{fmt.Sprint("<", writes-1)}
			read := func(what string, damaged bool) {
				t.Helper()
				var got kept
				note, err := ReadJSON(path, &got)
				if err != nil || got != want || (note != nil) != damaged || damaged && !strings.Contains(note.Error(), path) {
					t.Errorf("%s, %d writes, %s: %+v, %v, %v", name, writes, what, got, note, err)
				}
			}
			read("whole", false)
			if err := damage(path + copySuffix); err != nil {
				t.Fatal(err)
			}
			read("a damaged copy", false)
			// The next write repairs the copy.
			if err := WriteJSON(path, want, false); err != nil {
				t.Fatal(err)
			}
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			read("a damaged file", true)
			if err := damage(path + copySuffix); err != nil {
				t.Fatal(err)
			}
			var got kept
			_, err := ReadJSON(path, &got)
			if name == "missing" {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s, both: %v", name, err)
				}
			} else if !IsDamage(err) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s, both: %v", name, err)
			}
		}
	}
}

// A change of any bit of a sealed file is detected, unless the bit has no meaning.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.json")
	if err := WriteJSON(path, kept{"some text"}, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(text) {
		changed := bytes.Clone(text)
		changed[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readSealed(path); err == nil && string(got.Content) != `{"text":"some text"}` {
			t.Fatalf("bit %d: %s", bit, got.Content)
		}
	}
}

// fill writes the files of a generation.
func fill(text string) func(dir string) error {
	return func(dir string) error {
		return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "pages.img"), []byte(text), 0o600),
			os.WriteFile(filepath.Join(dir, "tree.img"), []byte("tree of "+text), 0o600))
	}
}

func TestDamagedSaveFallsBack(t *testing.T) {
	for name, damage := range damages() {
		for _, file := range []string{"pages.img", "tree.img", SumsFile} {
			t.Run(name+" "+file, func(t *testing.T) {
				saves := SavesIn(t.TempDir())
				if saves.Any() {
					t.Error("there is one before the first")
				}
				for n := 1; n <= 3; n++ {
					if got, err := saves.Save(fill(strconv.Itoa(n))); err != nil || got != n {
						t.Fatal(got, err)
					}
				}
				if _, err := os.Stat(saves.Dir(1)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the oldest: %v", err)
				}
				broken := filepath.Join(saves.Dir(3), file)
				if err := damage(broken); err != nil {
					t.Fatal(err)
				}
				if file == SumsFile {
					// Its copy serves until it is damaged, too.
					if got, note, err := saves.Newest(); err != nil || note != nil || got != 3 {
						t.Errorf("with the copy: %d, %v, %v", got, note, err)
					}
					if err := damage(broken + copySuffix); err != nil {
						t.Fatal(err)
					}
				}
				got, note, err := saves.Newest()
				if err != nil || got != 2 || note == nil || !strings.Contains(note.Error(), broken) {
					t.Errorf("%d, %v, %v", got, note, err)
				}
				// The next save keeps the last intact generation, and the rest of the damaged one.
				if got, err := saves.Save(fill("4")); err != nil || got != 4 {
					t.Fatal(got, err)
				}
				if err := Check(saves.Dir(2)); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(saves.Dir(3) + damagedSuffix); err != nil {
					t.Error(err)
				}
				if err := errors.Join(os.RemoveAll(saves.Dir(2)), os.RemoveAll(saves.Dir(4))); err != nil {
					t.Fatal(err)
				}
				if got, note, err := saves.Newest(); err != nil || got != 0 || note == nil || !saves.Any() {
					t.Errorf("with none that is good: %d, %v, %v", got, note, err)
				}
			})
		}
	}
}

// A link or another special file is never sealed. It is not accepted later in place of a sealed file, either.
func TestSealedTreesHoldNoLinks(t *testing.T) {
	plant := map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	}
	for what, plant := range plant {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			if err := errors.Join(fill("text")(dir), Seal(dir)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "pages.img")
			if err := errors.Join(os.Remove(path), plant(path)); err != nil {
				t.Fatal(err)
			}
			if err := Check(dir); !IsDamage(err) || !strings.Contains(err.Error(), path) {
				t.Errorf("Check: %v", err)
			}
			if err := Seal(dir); what != "directory" && (err == nil || !strings.Contains(err.Error(), path)) {
				t.Errorf("Seal: %v", err)
			}
		})
	}
	t.Run("the tree itself", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "tree")
		link := filepath.Join(t.TempDir(), "link")
		if err := errors.Join(fill("text")(dir), os.Symlink(dir, link)); err != nil {
			t.Fatal(err)
		}
		if err := Seal(link); err == nil || !strings.Contains(err.Error(), link) {
			t.Errorf("Seal: %v", err)
		}
		if err := Seal(dir); err != nil {
			t.Fatal(err)
		}
		if err := Check(link); !IsDamage(err) || !strings.Contains(err.Error(), link) {
			t.Errorf("Check: %v", err)
		}
	})
	t.Run("a list that leads outside", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "tree")
		if err := fill("text")(dir); err != nil {
			t.Fatal(err)
		}
		if err := WriteJSON(filepath.Join(dir, SumsFile), []sum{{Name: "../../etc/passwd"}}, false); err != nil {
			t.Fatal(err)
		}
		if err := Check(dir); !IsDamage(err) || !strings.Contains(err.Error(), SumsFile) {
			t.Errorf("Check: %v", err)
		}
	})
}

// killEnv is the step of a save, or of a replaced file, at which TestKilledChild kills itself.
const killEnv = "SB_TEST_KILL_AT"

// TestKilledChild is not a test: it is the process that TestKilledAtEachStep kills.
func TestKilledChild(t *testing.T) {
	at, err := strconv.Atoi(os.Getenv(killEnv))
	if err != nil {
		return // it was not started by TestKilledAtEachStep
	}
	const dir = "." // it was started there
	steps := 0
	w := Writer{step: func() {
		steps++
		if steps == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	saves := SavesIn(dir)
	saves.writer = w
	generation, err := saves.Save(fill("new"))
	if err == nil {
		err = w.WriteJSON(filepath.Join(dir, stateFile), State{Saved: generation}, true)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestKilledAtEachStep(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		at := 1
		for ; ; at++ {
			dir := t.TempDir()
			saves := SavesIn(dir)
			for n := 1; n <= 2; n++ {
				if _, err := saves.Save(fill(strconv.Itoa(n))); err != nil {
					t.Fatal(err)
				}
			}
			if err := WriteJSON(filepath.Join(dir, stateFile), State{Saved: 2}, true); err != nil {
				t.Fatal(err)
			}
			oldest := "2"
			if damaged {
				oldest = "1"
				if err := flip(filepath.Join(saves.Dir(2), "pages.img")); err != nil {
					t.Fatal(err)
				}
			}
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledChild$")
			child.Env = append(os.Environ(), killEnv+"="+strconv.Itoa(at))
			child.Dir = dir
			err := child.Run()
			//nolint:forcetypeassert // on Linux
			killed := err != nil && child.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			if err != nil && !killed {
				t.Fatal(err)
			}
			newest, _, err := saves.Newest()
			if err != nil || newest == 0 {
				t.Fatalf("killed at step %d: %d, %v", at, newest, err)
			}
			text, err := os.ReadFile(filepath.Join(saves.Dir(newest), "pages.img"))
			if err != nil || string(text) != oldest && string(text) != "new" || !killed && string(text) != "new" {
				t.Errorf("killed at step %d: generation %d holds %q, %v", at, newest, text, err)
			}
			var state State
			note, err := ReadJSON(filepath.Join(dir, stateFile), &state)
			if err != nil || note != nil || state.Saved < 2 || state.Saved > max(newest, 2) {
				t.Errorf("killed at step %d: %+v, %v, %v", at, state, note, err)
			}
			// The next save replaces the rest.
			if got, err := saves.Save(fill("next")); err != nil || got <= newest {
				t.Errorf("killed at step %d: the next save: %d, %v", at, got, err)
			}
			if !killed {
				break
			}
		}
		if at < 10 {
			t.Errorf("there were only %d steps", at)
		}
	}
}
