//go:build linux

package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

const (
	// maxHelpers bounds concurrent file operations.
	maxHelpers = 1 << 16
	// helperPatience bounds the wait of a checkpoint for running file operations.
	helperPatience = 10 * time.Second
)

// checkpoint writes the sandbox to the output directory name, and returns the data that a copy needs. The sandbox
// continues.
func (s *Supervisor) checkpoint(ctx context.Context, name string) (_ *wire.Kept, err error) {
	dir, err := s.output(name)
	if err != nil {
		return nil, err
	}
	defer s.dropUnwanted(ctx, dir)
	if err := s.acquire(); err != nil {
		return nil, err
	}
	defer s.release()
	// A program from a descriptor is mapped from the host, and no copy can have that mapping.
	patience, cancel := context.WithTimeout(ctx, helperPatience)
	defer cancel()
	if s.helpers.Acquire(patience, maxHelpers) != nil {
		return nil, core.Errorf(
			core.KindConflict, "checkpoint", s.launch.ID, "files are being copied into or out of the sandbox",
		).
			WithHint("try again when that is done")
	}
	defer s.helpers.Release(maxHelpers)
	s.mu.Lock()
	forwards := s.forwards
	kept := &wire.Kept{
		Engine: engineVersion(), Secrets: s.launch.Secrets, Given: s.given(), Last: s.commands.Last(),
		Commands: s.keptCommands(), Names: s.stack.Names(),
	}
	s.mu.Unlock()
	if forwards > 0 {
		return nil, core.Errorf(
			core.KindConflict, "checkpoint", s.launch.ID,
			"%d connections are open to a published port that listens on the sandbox's loopback alone", forwards,
		).
			WithHint("let it listen on 0.0.0.0, or try again when they are closed")
	}
	s.keeping.Lock()
	err = s.box.Checkpoint(dir)
	s.keeping.Unlock()
	if err != nil {
		return nil, classifyAs("checkpoint", "the sandbox could not be saved; it keeps running", err)
	}
	return kept, nil
}

// keptCommands returns the commands that continue in a copy.
func (s *Supervisor) keptCommands() []wire.KeptCommand {
	var list []wire.KeptCommand
	for _, c := range s.commands.Running() {
		if c.Kept() {
			list = append(list, wire.KeptCommand{Exec: c.Exec(), Left: c.Left()})
		}
	}
	return list
}

// spawned returns the number of commands that have an extra sb-guest process.
func (s *Supervisor) spawned() int { return len(s.keptCommands()) }

// engineVersion returns the version of gVisor that this program is linked with.
func engineVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == "gvisor.dev/gvisor" {
			return module.Version
		}
	}
	return "unknown"
}

// awaitImage waits until the client reports that the image is complete.
func (s *Supervisor) awaitImage() (wire.Kept, error) {
	kept, err := s.kept()
	if err != nil {
		return kept, core.Errorf(core.KindCanceled, "local.launch", "", "the saved sandbox is missing: %w", err)
	}
	if own := engineVersion(); kept.Engine != own {
		return kept, core.Errorf(
			core.KindConflict, "local.launch", "", "the checkpoint was made by another version of sb-runtime: gVisor %s, not %s",
			kept.Engine, own,
		).
			WithHint("launch from it with the sb that made it, or make a new one")
	}
	s.launch.Secrets = kept.Secrets
	s.commands.Continue(kept.Last)
	s.stack.TakeNames(kept.Names)
	return kept, nil
}

// rejoin takes over the commands that continue in this copy.
func (s *Supervisor) rejoin(kept wire.Kept) error {
	// Only this start needs the image of a fork. Its removal can take longer than all other steps.
	s.wg.Go(func() {
		if err := s.removeImage(); err != nil {
			s.log.Error("the image could not be removed", "error", err)
		}
	})
	for _, secret := range kept.Given {
		s.commands.Secrets.Add(map[string]string{secret.Name: secret.Value})
	}
	for _, command := range kept.Commands {
		if err := s.takeOver(command); err != nil {
			return err
		}
	}
	return nil
}

// removeImage removes the image that a fork started from.
func (s *Supervisor) removeImage() error {
	return os.RemoveAll(filepath.Join(s.launch.Dir, store.ImageDir))
}

// takeOver journals a command that continues here, and connects its outputs.
func (s *Supervisor) takeOver(kept wire.KeptCommand) error {
	c, err := s.commands.Adopt(kept.Exec, kept.Left, func(stdout, stderr *os.File) (command.Process, error) {
		inside, err := s.box.Spawn(context.Background(), guest.Spawn{ID: kept.ID, Attach: true}, stdout, stderr)
		return process{s, inside}, err
	})
	if err == nil && kept.ID == journal.EntryID {
		s.endWith(c)
	}
	return err
}
