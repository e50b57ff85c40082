//go:build linux

package supervisor

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
)

const (
	// memoryPoll is the interval of memory measurements of an awake sandbox.
	memoryPoll = 50 * time.Millisecond
	// busyPoll is the interval of attempts to freeze an idle sandbox with background processes.
	busyPoll = time.Second
	never    = time.Duration(1<<63 - 1)
)

// keep waits for a reason to end, and then ends the sandbox.
func (s *Supervisor) keep(ctx context.Context) {
	owner := make(chan struct{})
	ownerCtx, stopOwner := context.WithCancel(ctx)
	if s.launch.Lease.Bound {
		s.wg.Go(func() { watchOwner(ownerCtx, s.launch.Lease.Owner, owner) })
	}
	timer := time.NewTimer(s.next())
	defer timer.Stop()
	for why := (end{}); why.state == ""; timer.Reset(s.next()) {
		select {
		case why = <-s.ending:
		case <-ctx.Done():
			why = end{core.StateLost, core.ReasonSupervisor, "a signal ended the supervisor"}
		case <-owner:
			why = end{core.StateExited, core.ReasonLeaseEnded, "its owner process has ended"}
		case <-s.box.Done():
			why = s.crash()
			select {
			case why = <-s.ending: // a request ended it, and has the reason
			default:
			}
		case <-timer.C:
			why = s.due()
		case <-s.changed:
		}
		s.mu.Lock()
		s.why = why
		s.mu.Unlock()
	}
	stopOwner()
	s.saveBeforeEnd()
	s.log.Info("the sandbox ends", "state", s.why.state, "reason", s.why.reason, "message", s.why.message)
	s.teardown()
}

// next returns the time until the next deadline.
func (s *Supervisor) next() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := never
	at := func(when time.Time) {
		if !when.IsZero() {
			wait = min(wait, max(time.Until(when), 0))
		}
	}
	at(s.state.Expires)
	if s.busy == 0 {
		if idle := time.Duration(s.launch.Spec.IdleTimeout); idle > 0 {
			at(s.state.LastActive.Add(idle))
		}
		if !s.frozen && !s.paused && s.launch.FreezeAfter > 0 {
			at(s.freezeAt)
		}
	}
	if s.saves() && s.dirty {
		at(s.saveAt)
	}
	at(s.reportAt)
	return wait
}

// due handles deadlines that have passed. It returns the reason if the sandbox must end.
func (s *Supervisor) due() end {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	expired := func(when time.Time) bool { return !when.IsZero() && !now.Before(when) }
	if expired(s.state.Expires) {
		return end{core.StateExited, core.ReasonTimeout, "its lifetime expired"}
	}
	idle := time.Duration(s.launch.Spec.IdleTimeout)
	if s.busy == 0 && idle > 0 && expired(s.state.LastActive.Add(idle)) {
		return end{core.StateExited, core.ReasonIdle, fmt.Sprintf("no command ran in it for %s", core.Duration(idle))}
	}
	if s.saves() && s.dirty && expired(s.saveAt) {
		if err := s.saveFilesystem(); err != nil {
			s.log.Error("the filesystem could not be saved", "error", err)
		}
	}
	if expired(s.reportAt) {
		s.reportDenials()
	}
	if s.busy == 0 && !s.frozen && !s.paused && expired(s.freezeAt) {
		s.freeze()
	}
	return end{}
}

// acquire begins an activity. The sandbox stays awake until release. Errors are *core.Error of KindConflict.
func (s *Supervisor) acquire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return core.Errorf(core.KindConflict, "local", s.launch.ID, "the sandbox has ended")
	case s.paused:
		return core.Errorf(core.KindConflict, "local", s.launch.ID, "the sandbox is paused").
			WithHint("sb resume %s", s.launch.Spec.Name)
	}
	if err := s.thaw(); err != nil {
		return err
	}
	s.busy++
	return nil
}

// release ends an activity.
func (s *Supervisor) release() {
	now := time.Now()
	s.mu.Lock()
	s.busy--
	s.dirty = true
	s.state.LastActive, s.freezeAt = now, now.Add(s.launch.FreezeAfter)
	s.mu.Unlock()
	s.wake()
}

// wake makes keep check its deadlines again.
func (s *Supervisor) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// freeze suspends the sandbox if no process runs in it. The caller holds mu.
func (s *Supervisor) freeze() {
	usage, err := s.box.Usage()
	if err != nil || usage.Processes > 1 {
		s.freezeAt = time.Now().Add(busyPoll)
		return
	}
	if err := s.box.Freeze(); err != nil {
		s.log.Error("the idle sandbox could not be frozen", "error", err)
		s.freezeAt = time.Now().Add(busyPoll)
		return
	}
	s.usage, s.frozen, s.state.Frozen = usage, true, true
	s.stopWatching()
	if err := s.saveLocked(false); err != nil {
		s.log.Error("the state could not be written", "error", err)
	}
}

// thaw resumes a frozen sandbox. The caller holds mu.
func (s *Supervisor) thaw() error {
	if !s.frozen {
		return nil
	}
	if err := s.box.Thaw(); err != nil {
		return core.Errorf(core.KindInternal, "local", s.launch.ID, "the frozen sandbox cannot be resumed: %w", err)
	}
	s.frozen, s.state.Frozen = false, false
	s.wakeUp()
	if err := s.saveLocked(false); err != nil {
		s.log.Error("the state could not be written", "error", err)
	}
	return nil
}

// wakeUp starts to watch the memory. The caller holds mu, or is the only goroutine.
func (s *Supervisor) wakeUp() {
	limit := int64(s.launch.Spec.Memory)
	if limit == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.awake = cancel
	s.wg.Go(func() { s.watchMemory(ctx, limit) })
}

// stopWatching ends the watch of wakeUp. The caller holds mu.
func (s *Supervisor) stopWatching() {
	if s.awake != nil {
		s.awake()
		s.awake = nil
	}
}

// watchMemory ends the sandbox when it uses more memory than its limit, with a clear reason. Without a control group
// there is no other limit that protects the host.
func (s *Supervisor) watchMemory(ctx context.Context, limit int64) {
	tick := time.NewTicker(memoryPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.group.OutOfMemory() {
			s.finish(s.crash())
			return
		}
		used, err := s.box.Memory()
		if err != nil {
			continue
		}
		overhead, err := s.box.Overhead()
		if err != nil {
			continue
		}
		if message := overLimit(used, overhead, limit); message != "" {
			s.finish(end{core.StateFailed, core.ReasonMemory, message})
			return
		}
	}
}

// overLimit describes how a sandbox exceeds its memory limit, or returns "". used is the sandbox's memory without
// overhead, the memory of its kernel and its supervisor. All are in bytes.
func overLimit(used, overhead, limit int64) string {
	switch {
	case used > limit:
		return fmt.Sprintf("memory use of %s exceeded the limit of %s", core.Bytes(used), core.Bytes(limit))
	case used+overhead > limit+socket.KernelMemory:
		return fmt.Sprintf("memory use of %s, plus %s of its kernel and network, exceeded the limit of %s plus %s",
			core.Bytes(used), core.Bytes(overhead), core.Bytes(limit), core.Bytes(socket.KernelMemory))
	}
	return ""
}

// watchOwner closes gone when the owning process has ended.
func watchOwner(ctx context.Context, owner core.Owner, gone chan<- struct{}) {
	fd, err := unix.PidfdOpen(owner.PID, unix.PIDFD_NONBLOCK)
	if err != nil || owner.Gone() {
		if err == nil {
			_ = unix.Close(fd)
		}
		close(gone)
		return
	}
	file := os.NewFile(uintptr(fd), "owner")
	defer func() { _ = file.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Now()) })
	defer stop()
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	ended := false
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
		n, err := unix.Poll(fds, 0)
		ended = err == nil && n > 0
		return ended
	})
	if err == nil && ended {
		close(gone)
	}
}
