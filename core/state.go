package core

// State is the state of a sandbox in its life cycle.
//
//	creating -> running <-> paused
//	               |  ^
//	               v  |  (persistent sandboxes only)
//	            stopped
//	creating, running, paused, stopped -> exited | failed | lost
//
// A terminated sandbox is removed, so it has no state.
type State string

const (
	// StateQueued means that the sandbox waits for a machine at its provider. It has no cost yet.
	StateQueued State = "queued"
	// StateCreating means that the lease is written and the machine is being built.
	StateCreating State = "creating"
	// StateRunning means that commands can run in it. This includes an idle sandbox that the provider froze to save CPU:
	// the next request thaws it.
	StateRunning State = "running"
	// StatePaused means that a user paused it; commands wait for resume.
	StatePaused State = "paused"
	// StateStopped means that only the filesystem remains; start restarts the sandbox.
	StateStopped State = "stopped"
	// StateExited means that its command returned, a user terminated it, or its lifetime or idle time ended.
	// Sandbox.Reason has the cause.
	StateExited State = "exited"
	// StateFailed means that it could not be built or exceeded a limit that ends a sandbox.
	StateFailed State = "failed"
	// StateLost means that its supervisor or machine vanished: a crash, a kill -9, a reboot.
	StateLost State = "lost"
)

// Live reports whether the sandbox uses resources or can do so again: it is not exited, failed or lost.
func (s State) Live() bool {
	switch s {
	case StateQueued, StateCreating, StateRunning, StatePaused, StateStopped:
		return true
	case StateExited, StateFailed, StateLost:
		return false
	}
	return false
}

// Reason is why a sandbox no longer runs.
type Reason string

// The reasons.
const (
	ReasonCommand    Reason = "command"     // its entry command returned
	ReasonTimeout    Reason = "timeout"     // its lifetime ended
	ReasonIdle       Reason = "idle"        // no command ran in it for its idle timeout
	ReasonMemory     Reason = "memory"      // it used more memory than its limit
	ReasonDisk       Reason = "disk"        // its disk or the host's was full and it could not continue
	ReasonStopped    Reason = "stopped"     // stopped by a user; terminated if its state is exited
	ReasonLaunch     Reason = "launch"      // it could not be built
	ReasonCrash      Reason = "crash"       // the machine inside died
	ReasonSupervisor Reason = "supervisor"  // its supervisor died
	ReasonReboot     Reason = "reboot"      // the host was restarted
	ReasonLeaseEnded Reason = "lease_ended" // its owner has ended
)
