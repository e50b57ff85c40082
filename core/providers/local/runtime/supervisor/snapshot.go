//go:build linux

package supervisor

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// output returns the path of a directory that a client made in the sandbox's directory.
func (s *Supervisor) output(name string) (dir string, err error) {
	if !strings.HasPrefix(name, store.OutPrefix) || filepath.Base(name) != name {
		return "", core.Errorf(core.KindUsage, "snapshot", s.launch.ID, "%q is not the name of a directory to write to", name)
	}
	return filepath.Join(s.launch.Dir, name), nil
}

// dropUnwanted removes dir if the client has disconnected.
func (s *Supervisor) dropUnwanted(ctx context.Context, dir string) {
	if ctx.Err() == nil {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		s.log.Error("the files of a canceled request could not be removed", "error", err)
	}
}

// snapshot writes the writable layer to the output directory name. The client makes it durable.
func (s *Supervisor) snapshot(ctx context.Context, name string) error {
	dir, err := s.output(name)
	if err != nil {
		return err
	}
	defer s.dropUnwanted(ctx, dir)
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if err := s.box.SaveFS(dir); err != nil {
		return classifyAs("snapshot", "the files could not be saved", err)
	}
	return nil
}

// layer suspends the processes inside while it writes the writable layer to the client's descriptor.
func (s *Supervisor) layer(files *socket.Files) error {
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
	// A file that changes while it is read would break the archive.
	if err := s.box.Pause(); err != nil {
		return classifyAs("layer", "the processes could not be suspended", err)
	}
	defer func() { _ = s.box.Resume() }()
	if err := s.box.Layer(to[0]); err != nil {
		return classified("local.layer", "the files could not be read", err)
	}
	return nil
}

// diff writes the changes of the writable layer to the client's descriptor.
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
		return classifyAs("diff", "the changes could not be sent", err)
	}
	return json.NewEncoder(to[0]).Encode(changes)
}
