package origin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/internal/atomicfile"
	"github.com/seed-0724f904/sb/internal/seal"
)

// Store keeps the origins of sandboxes in a directory, one subdirectory for each sandbox. Several processes may use it.
type Store struct {
	// Dir is the directory. "" keeps nothing.
	Dir string
}

// maxOrigins is the highest number of origins of a sandbox.
const maxOrigins = 64

// suffix ends the name of a record.
const suffix = ".json"

func (s Store) of(provider, sandbox string) string { return filepath.Join(s.Dir, provider+"-"+sandbox) }

// Write records an origin of a sandbox. It replaces the one with the same target, or adds to it if both are Selected
// and of the same source. When it returns, the record is on the disk.
func (s Store) Write(provider, sandbox string, o Origin) error {
	if s.Dir == "" {
		return nil
	}
	o.Provider, o.Sandbox = provider, sandbox
	key := o.Target
	if o.Selected {
		key += "\x00" + o.Source
	}
	dir := s.of(provider, sandbox)
	sum := sha256.Sum256([]byte(key))
	file := filepath.Join(dir, hex.EncodeToString(sum[:8])+suffix)
	if o.Selected {
		// Only this record is read: the others can have a million files.
		was, err := read(file, provider, sandbox)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		files := map[string]File{}
		maps.Copy(files, was.Files)
		maps.Copy(files, o.Files)
		o.Files = files
	}
	text, err := seal.Marshal(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		if names, err := records(dir); err != nil || len(names) >= maxOrigins {
			return errors.Join(err, fmt.Errorf("more than %d directories were pushed to this sandbox", maxOrigins))
		}
	}
	return atomicfile.WriteDurable(file, text, 0o600)
}

// Read returns the origins of a sandbox, sorted by target.
func (s Store) Read(provider, sandbox string) ([]Origin, error) {
	if s.Dir == "" {
		return nil, nil
	}
	names, err := records(s.of(provider, sandbox))
	if err != nil {
		return nil, err
	}
	var list []Origin
	for _, name := range names {
		o, err := read(name, provider, sandbox)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b Origin) int { return strings.Compare(a.Target, b.Target) })
	return list, nil
}

// read returns the record in a file. fs.ErrNotExist: there is none.
func read(name, provider, sandbox string) (Origin, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return Origin{}, err
	}
	var o Origin
	if err := seal.Unmarshal(text, &o); err != nil {
		return Origin{}, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if o.Provider != provider || o.Sandbox != sandbox || !filepath.IsAbs(o.Source) || !strings.HasPrefix(o.Target, "/") {
		return Origin{}, fmt.Errorf("%s is damaged: it is not about the sandbox of its name", name)
	}
	return o, nil
}

// Remove removes the origins of a sandbox.
func (s Store) Remove(provider, sandbox string) error {
	if s.Dir == "" {
		return nil
	}
	return os.RemoveAll(s.of(provider, sandbox))
}

// Sandboxes returns the sandboxes that have origins, by "provider-id".
func (s Store) Sandboxes() ([]string, error) {
	if s.Dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// records returns the paths of the records in a directory, without those that are being written.
func records(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, ".") {
			names = append(names, filepath.Join(dir, name))
		}
	}
	return names, err
}
