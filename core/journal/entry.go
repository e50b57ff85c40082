package journal

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

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

// Read returns the entry of a command; fs.ErrNotExist when there is none.
func Read(dir, id string) (exec core.Exec, err error) {
	text, err := os.ReadFile(filepath.Join(dir, filepath.Base(id)+".json"))
	if err != nil {
		return core.Exec{}, err
	}
	return exec, json.Unmarshal(text, &exec)
}
