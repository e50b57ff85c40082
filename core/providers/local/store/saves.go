//go:build linux

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/internal/atomicfile"
)

const (
	draftSuffix   = ".new"     // of a generation that is being written
	damagedSuffix = ".damaged" // of a damaged generation, whose files may still be useful
)

// Saves are the saved filesystems of a persistent sandbox, one sealed directory for each generation. Two are kept: the
// newest, and the intact one before it. Only the process that holds the sandbox's lock changes them.
type Saves struct {
	dir    string
	writer Writer
}

// SavesIn returns the saves of a sandbox, given its directory.
func SavesIn(sandbox string) Saves { return Saves{dir: filepath.Join(sandbox, SavedDir)} }

// Dir returns the directory of one generation.
func (s Saves) Dir(generation int) string { return filepath.Join(s.dir, strconv.Itoa(generation)) }

// Save makes a new generation, which write fills. Then it removes old generations, except for the newest intact one. A
// kill at any point leaves an intact generation.
func (s Saves) Save(write func(dir string) error) (generation int, err error) {
	all, err := s.generations(true)
	if err != nil {
		return 0, err
	}
	generation = 1
	if len(all) > 0 {
		generation = all[0] + 1
	}
	final := s.Dir(generation)
	draft := final + draftSuffix
	if err := os.RemoveAll(draft); err != nil {
		return 0, err
	}
	if err := atomicfile.MkdirAll(s.dir, 0o700); err != nil {
		return 0, err
	}
	err = s.writer.noted("write", draft, write(draft))
	if err == nil {
		s.writer.stepped()
		err = s.writer.seal(draft)
	}
	if err == nil {
		s.writer.stepped()
		err = s.writer.noted("rename", final, os.Rename(draft, final))
	}
	if err == nil {
		s.writer.stepped()
		err = s.writer.syncDir(s.dir)
	}
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(draft))
	}
	return generation, s.trim(generation)
}

// trim removes generations older than newest, except for the newest intact one of them. It sets damaged ones aside.
func (s Saves) trim(newest int) error {
	all, err := s.generations(false)
	if err != nil {
		return err
	}
	good := false
	for _, generation := range all {
		if generation == newest {
			continue
		}
		s.writer.stepped()
		if good {
			err = errors.Join(err, s.writer.noted("remove", s.Dir(generation), os.RemoveAll(s.Dir(generation))))
			continue
		}
		damage := Check(s.Dir(generation))
		good = damage == nil
		if IsDamage(damage) {
			err = errors.Join(err, os.Rename(s.Dir(generation), s.Dir(generation)+damagedSuffix))
		}
	}
	return err
}

// Newest returns the newest intact generation, or 0 if there is none. damage describes the damaged generations that are
// newer.
func (s Saves) Newest() (generation int, damage, err error) {
	all, err := s.generations(false)
	if err != nil {
		return 0, nil, err
	}
	var found []error
	for _, generation := range all {
		err := Check(s.Dir(generation))
		if err == nil {
			return generation, errors.Join(found...), nil
		}
		if !IsDamage(err) {
			return 0, nil, err
		}
		found = append(found, err)
	}
	// Without an intact generation, those that were set aside are part of the damage.
	if set, err := filepath.Glob(filepath.Join(s.dir, "*"+damagedSuffix)); err == nil {
		for _, dir := range set {
			found = append(found, &DamageError{dir, "it was damaged before"})
		}
	}
	return 0, errors.Join(found...), nil
}

// Any reports whether a generation exists, intact or damaged. It reads no file.
func (s Saves) Any() bool {
	all, err := s.generations(true)
	return err != nil || len(all) > 0
}

// generations lists the numbers of generations, the newest first. With damaged it includes those that were set aside.
func (s Saves) generations(damaged bool) ([]int, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []int
	for _, e := range entries {
		name := e.Name()
		if damaged {
			name = strings.TrimSuffix(name, damagedSuffix)
		}
		if n, err := strconv.Atoi(name); err == nil && n > 0 && strconv.Itoa(n) == name {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all, nil
}
