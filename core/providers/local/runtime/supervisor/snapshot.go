//go:build linux

package supervisor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"

	"github.com/seed-0724f904/sb/core/providers/local/socket"
)

// pathOf is a path of an open directory, which this process may not be able to reach otherwise.
func pathOf(dir *os.File) string {
	return filepath.Join("/proc/self/fd", strconv.FormatUint(uint64(dir.Fd()), 10))
}

// snapshot writes the writable layer to the client's directory. The client makes it durable.
func (s *Supervisor) snapshot(files *socket.Files) error {
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
	defer s.keeping.Unlock()
	if err := s.box.SaveFS(pathOf(to[0])); err != nil {
		return classifyAs("snapshot", "the files could not be kept", err)
	}
	return nil
}

// diff writes to the client's descriptor what the writable layer changes.
func (s *Supervisor) diff(files *socket.Files) error {
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
