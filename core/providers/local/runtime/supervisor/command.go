//go:build linux

package supervisor

import (
	"strconv"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// logLimit bounds the output that is kept of a command, in bytes.
const logLimit = 8 << 20

// startEntry runs the entry command, whose end is the sandbox's.
func (s *Supervisor) startEntry() error {
	if len(s.launch.Spec.Command) == 0 {
		return nil
	}
	c, err := s.commands.RunEntry(&wire.Command{Argv: s.launch.Spec.Command, Actor: s.launch.Lease.Owner.Actor})
	if err != nil {
		return err
	}
	s.endWith(c)
	return nil
}

// endWith makes the end of the entry command the sandbox's.
func (s *Supervisor) endWith(c *command.Command) {
	s.wg.Go(func() {
		exit := c.Exit()
		s.mu.Lock()
		s.state.ExitCode = &exit.Code
		s.mu.Unlock()
		if exit.Reason != "" {
			return // the sandbox ended under it: that is the reason, not the command
		}
		s.stopping.Lock()
		defer s.stopping.Unlock()
		s.finish(end{core.StateExited, core.ReasonCommand, "its command ended with code " + strconv.Itoa(exit.Code)})
	})
}
