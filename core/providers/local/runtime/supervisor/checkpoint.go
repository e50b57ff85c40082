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
	// maxHelpers bounds the file operations at the same time.
	maxHelpers = 1 << 16
	// helperPatience is how long file operations that are under way may hold a checkpoint up.
	helperPatience = 10 * time.Second
)

// checkpoint writes the sandbox to the directory of that name and returns what a copy of it must know. The sandbox
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
	// A program that runs from a descriptor is mapped from the host, where no copy can have it.
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

// keptCommands are those that continue in a copy.
func (s *Supervisor) keptCommands() []wire.KeptCommand {
	var list []wire.KeptCommand
	for _, c := range s.commands.Running() {
		if c.Kept() {
			list = append(list, wire.KeptCommand{Exec: c.Exec(), Left: c.Left()})
		}
	}
	return list
}

// spawned counts the commands for which sb-guest stands as a process of its own.
func (s *Supervisor) spawned() int { return len(s.keptCommands()) }

// engineVersion is the version of gVisor that this program is linked with.
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

// awaitImage waits until the client says that the image is whole.
func (s *Supervisor) awaitImage() (wire.Kept, error) {
	kept, err := s.kept()
	if err != nil {
		return kept, core.Errorf(core.KindCanceled, "local.launch", "", "the sandbox to go on from was not kept: %w", err)
	}
	if own := engineVersion(); kept.Engine != own {
		return kept, core.Errorf(
			core.KindConflict, "local.launch", "", "the checkpoint is of another version of sb-runtime: gVisor %s, not %s",
			kept.Engine, own,
		).
			WithHint("launch from it with the sb that made it, or make a new one")
	}
	s.launch.Secrets = kept.Secrets
	s.commands.Continue(kept.Last)
	s.stack.TakeNames(kept.Names)
	return kept, nil
}

// rejoin takes over the commands that go on in this copy.
func (s *Supervisor) rejoin(kept wire.Kept) error {
	// The image of a fork was for this start alone. To remove it can take longer than all the rest.
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

// removeImage removes the image that a fork began with.
func (s *Supervisor) removeImage() error {
	return os.RemoveAll(filepath.Join(s.launch.Dir, store.ImageDir))
}

// takeOver journals a command that continues here and gives it outputs.
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
