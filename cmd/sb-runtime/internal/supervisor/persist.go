//go:build linux

package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// saves says whether the filesystem is to outlive the sandbox.
func (s *Supervisor) saves() bool { return s.launch.Spec.Persist && s.launch.SaveInterval > 0 }

// saveFilesystem writes the filesystem as a new generation, then drops the old one: a
// crash at any point leaves a whole one. The caller holds mu, so that the sandbox
// stays awake.
func (s *Supervisor) saveFilesystem() error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if err := s.thaw(); err != nil {
		return err
	}
	s.saveAt = time.Now().Add(s.launch.SaveInterval)
	generation := s.state.Saved + 1
	final := s.savedDir(generation)
	temporary := final + ".new"
	if err := errors.Join(os.RemoveAll(temporary), os.RemoveAll(final)); err != nil {
		return err
	}
	err := s.box.SaveFS(temporary)
	if err == nil {
		err = syncTree(temporary)
	}
	if err == nil {
		err = os.Rename(temporary, final)
	}
	if err == nil {
		err = store.SyncDir(filepath.Dir(final))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temporary))
	}
	s.dirty = false
	s.state.Saved = generation
	if err := s.saveLocked(true); err != nil {
		return err
	}
	return s.dropGenerations(generation)
}

// saveBeforeEnd saves what a persistent sandbox has that ends by itself, and makes its end a stop: it can
// be started again.
func (s *Supervisor) saveBeforeEnd() {
	if !s.launch.Spec.Persist {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirty && s.why.state != core.StateStopped && !s.savedAtEnd() {
		lost := "; its files are as they were last saved"
		if s.state.Saved == 0 {
			lost = "; its files were never saved"
		}
		s.why.message += lost
	}
	s.why.state = core.StateStopped
}

// savedAtEnd saves what can still be saved. The caller holds mu.
func (s *Supervisor) savedAtEnd() bool {
	if s.why.reason == core.ReasonCrash {
		return false
	}
	err := s.saveFilesystem()
	if err != nil {
		s.log.Error("the filesystem could not be saved at the end", "error", err)
	}
	return err == nil
}

// dropGenerations removes all but one.
func (s *Supervisor) dropGenerations(keep int) error {
	dir := filepath.Join(s.launch.Dir, store.SavedDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != strconv.Itoa(keep) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// syncTree makes a directory's files durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() && !entry.IsDir() {
			return err
		}
		return store.SyncDir(path)
	})
}
