//go:build unix

package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// copySuffix is the suffix of a sealed file's copy.
const copySuffix = ".copy"

// maxSealed bounds a sealed file in bytes. The largest contain the list of a tree, or a spec.
const maxSealed = 64 << 20

// sealed is the form of a JSON file. The checksum shows damage. Each write increases the generation.
type sealed struct {
	Generation uint64 `json:"generation"`
	// CRC32C is the checksum of generation and content, in hexadecimal.
	CRC32C  string          `json:"crc32c"`
	Content json.RawMessage `json:"content"`
}

func (s sealed) sum() string {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	_, _ = sum.Write(strconv.AppendUint(nil, s.Generation, 10))
	_, _ = sum.Write(s.Content)
	return fmt.Sprintf("%08x", sum.Sum32())
}

// DamageError means that a stored file is not as it was written.
type DamageError struct {
	Path string
	Why  string
}

func (e *DamageError) Error() string { return e.Path + " is damaged: " + e.Why }

// IsDamage reports whether an error is a DamageError.
func IsDamage(err error) bool {
	_, ok := errors.AsType[*DamageError](err)
	return ok
}

// Writer writes sealed files. The zero value is ready to use. Only one process at a time may write a file: the holder
// of the lock that protects it.
type Writer struct {
	// step is called between two changes of the disk, for tests that kill the process there; nil does nothing.
	step func()
	// note is called after each change of the disk, for tests of their order; nil does nothing.
	note func(change, path string)
}

func (w Writer) stepped() {
	if w.step != nil {
		w.step()
	}
}

// noted reports a change that succeeded, and returns its error.
func (w Writer) noted(change, path string, err error) error {
	if w.note != nil && err == nil {
		w.note(change, path)
	}
	return err
}

func (w Writer) syncDir(dir string) error { return w.noted("sync", dir, SyncDir(dir)) }

// WriteJSON replaces a file by v as JSON, mode 0600, and then its copy. durable waits for the disk. A killed writer
// leaves the complete old or new content under at least one of the two names.
func WriteJSON(path string, v any, durable bool) error { return Writer{}.WriteJSON(path, v, durable) }

// WriteJSON is the function WriteJSON.
func (w Writer) WriteJSON(path string, v any, durable bool) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	before, _ := newest(path)
	next := sealed{Generation: before.Generation + 1, Content: content}
	next.CRC32C = next.sum()
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := w.replace(path, text, durable); err != nil {
		return err
	}
	if durable {
		if err := w.syncDir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	w.stepped()
	// The copy is replaced only after the new file was verified.
	if _, err := readSealed(path); err != nil {
		return err
	}
	return w.replace(path+copySuffix, text, false)
}

// replace writes a temporary file beside path and renames it to path.
func (w Writer) replace(path string, text []byte, durable bool) (err error) {
	dir, name := filepath.Split(path)
	temporary := filepath.Join(dir, "."+name+".new")
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
		}
	}()
	w.stepped()
	_, err = f.Write(text)
	if err = w.noted("write", temporary, err); durable && err == nil {
		err = w.noted("sync", temporary, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	w.stepped()
	return w.noted("rename", path, os.Rename(temporary, path))
}

// ReadJSON reads a file of WriteJSON into v. It reads the copy if the file is missing or damaged. damage then names the
// file. The error is fs.ErrNotExist if neither exists. It is a DamageError that names the file if neither is usable.
func ReadJSON(path string, v any) (damage, err error) {
	got, damage := newest(path)
	if got.Content == nil {
		return nil, damage
	}
	if err := json.Unmarshal(got.Content, v); err != nil {
		return nil, &DamageError{path, err.Error()}
	}
	return damage, nil
}

// errIrregular means that a path is not a regular file.
var errIrregular = errors.New("it is not a regular file")

// SyncDir makes a directory's entries durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenRegular opens a file as os.OpenFile does. It does not follow a link at path, and does not wait for a FIFO. A
// supervisor can write to the sandbox's directory, so a compromised one could plant those for the next client.
func OpenRegular(path string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%s: %w", path, errIrregular)
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(cmp.Or(err, fmt.Errorf("%s: %w", path, errIrregular)), f.Close())
	}
	return f, nil
}

// readRegular reads a file, at most maxSealed bytes.
func readRegular(path string) ([]byte, error) {
	f, err := OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSealed))
	return text, errors.Join(err, f.Close())
}

// newest returns the content of a sealed file, or of its copy. The result has no content if neither is usable. The
// error describes the damage of the file.
func newest(path string) (sealed, error) {
	file, err := readSealed(path)
	if err == nil {
		return file, nil
	}
	other, copyErr := readSealed(path + copySuffix)
	switch {
	case copyErr == nil && errors.Is(err, fs.ErrNotExist):
		return other, &DamageError{path, "the file is missing"}
	case copyErr == nil:
		return other, err
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(copyErr, fs.ErrNotExist):
		return sealed{}, copyErr
	}
	return sealed{}, err
}

// readSealed reads one file and checks it.
func readSealed(path string) (sealed, error) {
	text, err := readRegular(path)
	if errors.Is(err, errIrregular) {
		return sealed{}, &DamageError{path, errIrregular.Error()}
	}
	if err != nil {
		return sealed{}, err
	}
	var s sealed
	if err := json.Unmarshal(text, &s); err != nil {
		return sealed{}, &DamageError{path, err.Error()}
	}
	if s.Content == nil || s.CRC32C != s.sum() {
		return sealed{}, &DamageError{path, "its checksum differs"}
	}
	return s, nil
}
