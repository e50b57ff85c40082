package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
	"github.com/seed-0724f904/sb/internal/seal"
)

// EntryID is the id of the entry command.
const EntryID = "0"

// Write replaces the entry of a command. It holds no secrets.
func Write(dir string, exec core.Exec) error {
	text, err := seal.Marshal(exec)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, exec.ID+".json"), text, 0o600)
}

// Read returns the entry of a command. id is any text. The error is fs.ErrNotExist if no command has it.
func Read(dir, id string) (exec core.Exec, err error) {
	if !validID(id) {
		return core.Exec{}, fmt.Errorf("command %q: %w", id, fs.ErrNotExist)
	}
	path := filepath.Join(dir, id+".json")
	f, err := openRegular(path)
	if err != nil {
		return core.Exec{}, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxEntry))
	if err != nil {
		return core.Exec{}, err
	}
	if err := seal.Unmarshal(text, &exec); err != nil {
		return core.Exec{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	// A file that is empty JSON, or of another command, decodes, too.
	if exec.ID != id || exec.Started.IsZero() {
		return core.Exec{}, fmt.Errorf("%s is damaged: it does not describe command %s", path, id)
	}
	return exec, nil
}

// maxEntry bounds an entry in bytes: the kernel bounds a command line by far less.
const maxEntry = 16 << 20

// openRegular opens a file of the journal. It waits for no FIFO: the writer is a supervisor that parses hostile
// packets.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(cmp.Or(err, fmt.Errorf("%s is damaged: it is not a regular file", path)), f.Close())
	}
	return f, nil
}

// validID reports whether id is valid for an entry: a number, which is safe in a file's name.
func validID(id string) bool {
	const most = 19 // digits of an int64
	return id != "" && len(id) <= most && strings.Trim(id, "0123456789") == ""
}
