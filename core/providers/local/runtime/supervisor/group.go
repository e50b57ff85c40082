//go:build linux

package supervisor

import "github.com/seed-0724f904/sb/core"

// openGroup opens the sandbox's control group, in which this process was started: later it does not see it. The client
// removes the group with the sandbox, or before its next start.
func (s *Supervisor) openGroup() {
	if s.launch.Group != nil {
		s.group = s.launch.Group.Member()
	}
}

// leaveGroup takes this process out of the sandbox's control group: the limits are for the sandbox's kernel and file
// server, and a kernel that kills those for their memory must not kill the process that reports it.
func (s *Supervisor) leaveGroup() {
	if err := s.group.Leave(); err != nil {
		s.log.Warn("the supervisor stays in the sandbox's control group", "error", err)
	}
}

// crash returns why the sandbox's kernel ended unasked.
func (s *Supervisor) crash() end {
	if s.group.OutOfMemory() {
		return end{core.StateFailed, core.ReasonMemory, "the machine's kernel ended it: its memory limit of " +
			s.launch.Spec.Memory.String() + " was passed"}
	}
	return end{core.StateFailed, core.ReasonCrash, "the sandbox's kernel ended"}
}
