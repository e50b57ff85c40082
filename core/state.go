package core

// State is where a sandbox stands in its life.
//
//	creating -> running <-> paused
//	               |  ^
//	               v  |  (persistent sandboxes only)
//	            stopped
//	creating, running, paused, stopped -> exited | failed | lost
//
// A terminated sandbox is gone: no state names it.
type State string

const (
	// StateQueued means that the sandbox waits for a machine at its provider. It has cost nothing yet.
	StateQueued State = "queued"
	// StateCreating means that the lease is written and the machine is being built.
	StateCreating State = "creating"
	// StateRunning means that commands can be run in it. An idle sandbox that the
	// provider froze to save CPU is running: the next request thaws it.
	StateRunning State = "running"
	// StatePaused means that somebody paused it; commands wait for resume.
	StatePaused State = "paused"
	// StateStopped means that only the filesystem is kept; start brings it back.
	StateStopped State = "stopped"
	// StateExited means that it ended by itself: its command returned, or its
	// lifetime or idle time was over. Sandbox.Reason tells which.
	StateExited State = "exited"
	// StateFailed means that it could not be built or broke a limit that ends a sandbox.
	StateFailed State = "failed"
	// StateLost means that whatever ran it vanished: a crash, a kill -9, a reboot.
	StateLost State = "lost"
)

// Live says whether the sandbox occupies resources or can again: it is neither
// exited, failed nor lost.
func (s State) Live() bool {
	switch s {
	case StateQueued, StateCreating, StateRunning, StatePaused, StateStopped:
		return true
	case StateExited, StateFailed, StateLost:
		return false
	}
	return false
}

// Reason says why a sandbox is no longer running.
type Reason string

// The reasons.
const (
	ReasonCommand    Reason = "command"     // its entry command returned
	ReasonTimeout    Reason = "timeout"     // its lifetime was over
	ReasonIdle       Reason = "idle"        // nothing ran in it for its idle time
	ReasonMemory     Reason = "memory"      // it used more memory than its limit
	ReasonDisk       Reason = "disk"        // its disk or the host's was full and it could not go on
	ReasonStopped    Reason = "stopped"     // somebody stopped it, or terminated it: then its state is exited
	ReasonLaunch     Reason = "launch"      // it could not be built
	ReasonCrash      Reason = "crash"       // the machine inside died
	ReasonSupervisor Reason = "supervisor"  // whatever supervised it died
	ReasonReboot     Reason = "reboot"      // the host was restarted
	ReasonLeaseEnded Reason = "lease_ended" // whoever it was for is gone
)
