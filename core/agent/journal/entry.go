package journal

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
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

// Entries are the entries of a journal. They hold no secrets.
type Entries struct {
	// Dir is the journal's directory.
	Dir string
	// Key signs the entries of a journal that root in the sandbox can write to. An entry with another signature, or with
	// none, is damaged. Without a key, entries have no signature.
	Key []byte
}

// Write replaces the entry of a command.
func (e Entries) Write(exec core.Exec) error {
	text, err := e.Encode(exec)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(e.Dir, exec.ID+".json"), text, 0o600)
}

// Read returns the entry of a command. id is any text. The error is fs.ErrNotExist if no command has it.
func (e Entries) Read(id string) (exec core.Exec, err error) {
	if !validID(id) {
		return core.Exec{}, fmt.Errorf("command %q: %w", id, fs.ErrNotExist)
	}
	path := filepath.Join(e.Dir, id+".json")
	f, err := openRegular(path)
	if err != nil {
		return core.Exec{}, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxEntry))
	if err != nil {
		return core.Exec{}, err
	}
	if exec, err = e.Decode(text); err != nil {
		return core.Exec{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	// A file that is empty JSON, or of another command, decodes, too.
	if exec.ID != id || exec.Started.IsZero() {
		return core.Exec{}, fmt.Errorf("%s is damaged: it does not describe command %s", path, id)
	}
	return exec, nil
}

// signed is an entry with the code that authenticates it: HMAC-SHA256 of its bytes.
type signed struct {
	Entry json.RawMessage `json:"entry"`
	MAC   []byte          `json:"mac"`
}

// Encode returns an entry with its checksum, and signed if there is a key.
func (e Entries) Encode(exec core.Exec) ([]byte, error) {
	if e.Key == nil {
		return seal.Marshal(exec)
	}
	entry, err := json.Marshal(exec)
	if err != nil {
		return nil, err
	}
	return seal.Marshal(signed{Entry: entry, MAC: e.mac(entry)})
}

// Decode reads the result of Encode. It returns an error if a byte has changed, or for another key's signature.
func (e Entries) Decode(text []byte) (exec core.Exec, err error) {
	if e.Key == nil {
		err = seal.Unmarshal(text, &exec)
		return exec, err
	}
	var s signed
	if err := seal.Unmarshal(text, &s); err != nil {
		return core.Exec{}, err
	}
	if !hmac.Equal(s.MAC, e.mac(s.Entry)) {
		return core.Exec{}, errors.New("sb did not write it: its signature is missing or wrong")
	}
	err = json.Unmarshal(s.Entry, &exec)
	return exec, err
}

func (e Entries) mac(entry []byte) []byte {
	h := hmac.New(sha256.New, e.Key)
	h.Write(entry)
	return h.Sum(nil)
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
