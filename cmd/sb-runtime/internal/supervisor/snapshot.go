//go:build linux

package supervisor

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/seed-0724f904/sb/core/providers/local/store"
	"github.com/seed-0724f904/sb/core/providers/local/wire"
)

// snapshot writes the writable layer to dir, durably.
func (s *Supervisor) snapshot(dir string) error {
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	s.keeping.Lock()
	defer s.keeping.Unlock()
	err := s.box.SaveFS(dir)
	if err == nil {
		err = store.Seal(dir)
	}
	if err != nil {
		return errors.Join(classifyAs("snapshot", "the files could not be kept", err), os.RemoveAll(dir))
	}
	return nil
}

// diff writes to the client's descriptor what the writable layer changes.
func (s *Supervisor) diff(files *wire.Files) error {
	to, err := files.Take(1)
	if err != nil {
		return err
	}
	defer closeAll(to)
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	s.keeping.Lock()
	changes, err := s.box.Diff()
	s.keeping.Unlock()
	if err != nil {
		return classifyAs("diff", "the changes could not be told", err)
	}
	return json.NewEncoder(to[0]).Encode(changes)
}
