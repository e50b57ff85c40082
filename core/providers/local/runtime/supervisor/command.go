//go:build linux

package supervisor

import (
	"strconv"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// logLimit bounds the stored output of a command, in bytes.
const logLimit = 8 << 20

// startEntry runs the entry command. Its end is the sandbox's end.
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

// endWith ends the sandbox when the entry command ends.
func (s *Supervisor) endWith(c *command.Command) {
	s.wg.Go(func() {
		exit := c.Exit()
		s.mu.Lock()
		s.state.ExitCode = &exit.Code
		s.mu.Unlock()
		if exit.Reason != "" {
			return // the command ended because the sandbox did
		}
		s.stopping.Lock()
		defer s.stopping.Unlock()
		s.finish(end{core.StateExited, core.ReasonCommand, "its command exited with code " + strconv.Itoa(exit.Code)})
	})
}
