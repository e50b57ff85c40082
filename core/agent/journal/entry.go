package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Write replaces the entry of a command. It holds no secrets.
func Write(dir string, exec core.Exec) error {
	text, err := json.Marshal(exec)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, exec.ID+".json")
	temporary := filepath.Join(dir, "."+exec.ID+".json")
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return os.Rename(temporary, path)
}

// Read returns the entry of a command. id is any text: fs.ErrNotExist when it is not the id of a command here.
func Read(dir, id string) (exec core.Exec, err error) {
	if !validID(id) {
		return core.Exec{}, fmt.Errorf("command %q: %w", id, fs.ErrNotExist)
	}
	path := filepath.Join(dir, id+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		return core.Exec{}, err
	}
	if err := json.Unmarshal(text, &exec); err != nil {
		return core.Exec{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return exec, nil
}

// validID says whether a journal can have an entry of that id: a number, which is safe in a file's name.
func validID(id string) bool {
	const most = 19 // digits of an int64
	return id != "" && len(id) <= most && strings.Trim(id, "0123456789") == ""
}
