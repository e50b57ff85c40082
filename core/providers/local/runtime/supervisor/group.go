//go:build linux

package supervisor

import "github.com/seed-0724f904/sb/core"

// openGroup opens the sandbox's control group, in which this process was started. It must come before enterJail, which
// hides the group. The client removes the group with the sandbox, or before the next start.
func (s *Supervisor) openGroup() {
	if s.launch.Group != nil {
		s.group = s.launch.Group.Member()
	}
}

// leaveGroup moves this process out of the sandbox's control group. The limits are for the sandbox's kernel and file
// server. The machine's kernel may kill those for their memory, but not this process, which reports it.
func (s *Supervisor) leaveGroup() {
	if err := s.group.Leave(); err != nil {
		s.log.Warn("the supervisor stays in the sandbox's control group", "error", err)
	}
}

// crash returns the reason for an unexpected end of the sandbox's kernel.
func (s *Supervisor) crash() end {
	if s.group.OutOfMemory() {
		return end{core.StateFailed, core.ReasonMemory, "the machine's kernel killed it: its memory limit of " +
			s.launch.Spec.Memory.String() + " was exceeded"}
	}
	return end{core.StateFailed, core.ReasonCrash, "the sandbox's kernel ended"}
}
