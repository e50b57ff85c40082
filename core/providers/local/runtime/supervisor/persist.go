//go:build linux

package supervisor

import (
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// saves reports whether the filesystem is saved periodically.
func (s *Supervisor) saves() bool { return s.launch.Spec.Persist && s.launch.SaveInterval > 0 }

// saveFilesystem saves the filesystem as a new generation. The caller holds mu, so that the sandbox stays awake.
func (s *Supervisor) saveFilesystem() error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if err := s.thaw(); err != nil {
		return err
	}
	s.saveAt = time.Now().Add(s.launch.SaveInterval)
	generation, err := store.SavesIn(s.launch.Dir).Save(s.box.SaveFS)
	if generation == 0 {
		return err
	}
	if err != nil {
		s.log.Error("an old generation of the filesystem could not be removed", "error", err)
	}
	s.dirty = false
	s.state.Saved = generation
	return s.saveLocked(true)
}

// saveBeforeEnd saves the files of a persistent sandbox that ends without a request. It makes the end a stop, so that
// the sandbox can be started again.
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

// savedAtEnd saves the filesystem and reports whether that succeeded. The caller holds mu.
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
