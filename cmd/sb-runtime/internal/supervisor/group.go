//go:build linux

package supervisor

import "github.com/seed-0724f904/sb/core"

// leaveGroup takes this process out of the sandbox's control group, where it was started: the
// limits are for the sandbox's kernel and file server, and who kills those must not kill the
// one who tells why.
func (s *Supervisor) leaveGroup() {
	if s.launch.Group == nil {
		return
	}
	if err := s.launch.Group.Leave(); err != nil {
		s.log.Warn("the supervisor stays in the sandbox's control group", "error", err)
	}
}

// removeGroup removes the control group of a sandbox that has ended, and reports whether there is none now.
func (s *Supervisor) removeGroup() bool {
	if s.launch.Group == nil {
		return true
	}
	s.leaveGroup()
	if err := s.launch.Group.Remove(); err != nil {
		s.log.Error("the control group could not be removed", "error", err)
		return false
	}
	return true
}

// crash says why the sandbox's kernel ended by itself.
func (s *Supervisor) crash() end {
	if s.launch.Group != nil && s.launch.Group.OutOfMemory() {
		return end{core.StateFailed, core.ReasonMemory, "the machine's kernel ended it: its memory limit of " + s.launch.Spec.Memory.String() + " was passed"}
	}
	return end{core.StateFailed, core.ReasonCrash, "the sandbox's kernel ended"}
}
