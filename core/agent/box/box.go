//go:build linux

package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

const (
	// stopGrace is the time for commands to end after the engine's request to stop the container.
	stopGrace = 8 * time.Second
	// endGrace is how long the box waits for killed commands to be written down.
	endGrace = 2 * time.Second
	never    = time.Duration(1<<63 - 1)

	exitFailed = 125
)

// Box is one sandbox, seen from inside.
type Box struct {
	dir    wire.Dir
	config wire.Config
	key    []byte
	env    []string // the image's
	log    io.Writer
	reaper *reaper
	// commands are set by prepare.
	commands *command.Commands
	// ending takes the first reason to end; changed wakes keep.
	ending  chan end
	changed chan struct{}
	wg      sync.WaitGroup

	mu         sync.Mutex
	busy       int
	lastActive time.Time
	expires    time.Time
	fixed      bool // no lease changes expires
	issued     time.Time
	over       bool
	paused     bool
}

// end is the reason for the box's end, and its exit code.
type end struct {
	state wire.State
	// grace is the time for commands to end before SIGKILL.
	grace time.Duration
	code  int
}

// Run runs the first process of a container and returns the exit code. dir is sb's directory in the container. stdin
// carries the setup; log receives the states.
func Run(dir wire.Dir, stdin *os.File, log io.Writer) int {
	b := &Box{
		dir: dir, env: os.Environ(), log: log, reaper: newReaper(),
		ending: make(chan end, 1), changed: make(chan struct{}, 1),
	}
	// From here on only the signals that keep handles end the box.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(signals)
	outlive()
	if err := b.prepare(stdin); err != nil {
		b.refuse(err)
		return exitFailed
	}
	listener, err := listen()
	door, doorErr := openDoor()
	if err := errors.Join(err, doorErr); err != nil {
		b.refuse(err)
		return exitFailed
	}
	done := make(chan struct{})
	b.wg.Go(func() { b.reaper.run(done) })
	defer close(done)
	go b.serve(listener, accept, engineLinger)
	go b.serve(door, admit, 0)
	if err := b.startEntry(); err != nil {
		b.refuse(err)
		return exitFailed
	}
	b.mu.Lock()
	b.say(wire.State{State: core.StateRunning, Expires: b.expires, Fixed: b.fixed})
	b.mu.Unlock()
	why := b.keep(signals)
	b.terminate(why.grace)
	b.mu.Lock()
	why.state.Expires, why.state.Fixed = b.expires, b.fixed
	b.mu.Unlock()
	b.say(why.state)
	return why.code
}

// refuse writes to the log why the sandbox does not start.
func (b *Box) refuse(err error) {
	b.say(wire.State{
		State: core.StateFailed, Reason: core.ReasonLaunch, Message: err.Error(), Kind: core.KindOf(err).String(),
		Hint: core.HintOf(err),
	})
}

// prepare reads the setup and restricts this process before it runs commands.
func (b *Box) prepare(stdin *os.File) error {
	setup, err := readSetup(stdin)
	if err != nil {
		return fmt.Errorf("the sandbox received no settings: %w", err)
	}
	b.config, b.key = setup.Config, setup.Key
	if err := b.keepSecrets(); err != nil {
		return err
	}
	b.commands = command.New(host{b}, command.Config{
		Sandbox: b.config.ID, Journal: b.journal(), LogLimit: b.config.ExecLogLimit, EntryLogLimit: b.config.EntryLogLimit,
	})
	b.commands.Secrets.Add(b.config.Secrets)
	if b.config.Fence.On || b.config.Fence.Closed {
		if err := raiseFence(b.config.Fence); err != nil {
			return fmt.Errorf("the network policy cannot be applied: %w", err)
		}
	}
	if err := publish(b.config.Fence.Ports); err != nil {
		return fmt.Errorf("a published port cannot be opened: %w", err)
	}
	if err := dropSetup(); err != nil {
		return fmt.Errorf("capabilities cannot be dropped: %w", err)
	}
	if err := limitFiles(b.config.Spec.OpenFiles); err != nil {
		return fmt.Errorf("open files cannot be limited: %w", err)
	}
	unix.Umask(0o022)
	// The image may lack the directory: engines create it when a container starts.
	if dir := b.config.Workdir; dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	b.lastActive, b.expires, b.fixed = time.Now(), b.config.Expires, b.config.Fixed
	return b.commands.Open()
}

// journal returns the entries of the sandbox's commands. Root in the sandbox can write to their directory, so they are
// signed.
func (b *Box) journal() journal.Entries { return journal.Entries{Dir: b.dir.Journal(), Key: b.key} }

// limitFiles bounds the open files of this process and its children. A lower limit of the container stays.
func limitFiles(most int) error {
	if most == 0 {
		return nil
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Max = min(limit.Max, uint64(most)) //nolint:gosec // the spec's validation allows no negative number
	limit.Cur = limit.Max
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
}

// say writes a state to the log as one line.
func (b *Box) say(state wire.State) {
	state.Time = time.Now().UTC()
	line, err := json.Marshal(state)
	if err == nil {
		_, _ = b.log.Write(append(line, '\n'))
	}
}

// note records a failure outside of any request in the container's log, before the state.
func (b *Box) note(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.say(wire.State{State: core.StateRunning, Expires: b.expires, Fixed: b.fixed, Message: err.Error()})
	}
}

// startEntry runs the entry command. Its end is the end of the sandbox.
func (b *Box) startEntry() error {
	if len(b.config.Spec.Command) == 0 {
		return nil
	}
	c, err := b.commands.RunEntry(&wire.Command{Argv: b.config.Spec.Command, Actor: b.config.Actor})
	if err != nil {
		return err
	}
	b.wg.Go(func() {
		exit := c.Exit()
		state := wire.State{
			State: core.StateExited, Reason: core.ReasonCommand, ExitCode: &exit.Code,
			Message: fmt.Sprintf("its command exited with code %d", exit.Code),
		}
		if exit.Reason == core.ReasonMemory {
			state.State, state.Reason, state.Message = core.StateFailed, core.ReasonMemory, exit.Message
		}
		b.finish(end{state: state, code: exit.Code})
	})
	return nil
}

// finish ends the box; the first reason counts.
func (b *Box) finish(why end) {
	select {
	case b.ending <- why:
	default:
	}
}

// stopped is the end of the sandbox by a request.
func (b *Box) stopped(grace time.Duration) end {
	state := wire.State{State: core.StateExited, Reason: core.ReasonStopped, Message: "it was stopped"}
	if b.config.Spec.Persist {
		state = wire.State{State: core.StateStopped, Reason: core.ReasonStopped}
	}
	return end{state: state, grace: grace}
}

// keep runs until there is a reason to end.
func (b *Box) keep(signals <-chan os.Signal) end {
	timer := time.NewTimer(b.next())
	defer timer.Stop()
	for {
		select {
		case why := <-b.ending:
			return why
		case <-signals:
			return b.stopped(stopGrace)
		case <-timer.C:
			if why, due := b.due(); due {
				return why
			}
		case <-b.changed:
		}
		timer.Reset(b.next())
	}
}

// next is how long until something is due.
func (b *Box) next() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := never
	if !b.expires.IsZero() {
		wait = max(time.Until(b.expires), 0)
	}
	if idle := time.Duration(b.config.Spec.IdleTimeout); idle > 0 && b.busy == 0 {
		wait = min(wait, max(time.Until(b.lastActive.Add(idle)), 0))
	}
	return wait
}

// due reports whether the sandbox's lifetime or idle time is over.
func (b *Box) due() (end, bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.expires.IsZero() && !now.Before(b.expires) {
		return end{
			state: wire.State{State: core.StateExited, Reason: core.ReasonTimeout, Message: "its lifetime expired"},
		}, true
	}
	idle := time.Duration(b.config.Spec.IdleTimeout)
	if b.busy == 0 && idle > 0 && !now.Before(b.lastActive.Add(idle)) {
		return end{state: wire.State{
			State: core.StateExited, Reason: core.ReasonIdle,
			Message: fmt.Sprintf("no command ran in it for %s", core.Duration(idle)),
		}}, true
	}
	return end{}, false
}

// acquire begins an activity that keeps the sandbox from being idle until release.
func (b *Box) acquire() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return core.Errorf(core.KindConflict, "exec", b.config.ID, "the sandbox has ended")
	}
	if b.paused {
		return core.Errorf(core.KindConflict, "exec", b.config.Spec.Name, "the sandbox is paused").
			WithHint("sb resume %s", b.config.Spec.Name)
	}
	b.busy++
	return nil
}

func (b *Box) release() {
	b.mu.Lock()
	b.busy--
	b.lastActive = time.Now()
	b.mu.Unlock()
	b.wake()
}

func (b *Box) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// expire sets when the lifetime ends; zero is never. A lease has no effect after an expiry without one.
func (b *Box) expire(at, issued time.Time, lease bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || !issued.After(b.issued) {
		return core.Errorf(core.KindConflict, "timeout", b.config.ID, "the sandbox has ended, or a newer call set "+
			"another time")
	}
	if b.fixed && lease {
		return nil
	}
	b.issued, b.expires, b.fixed = issued, at, !lease
	b.say(wire.State{State: core.StateRunning, Expires: at, Fixed: b.fixed})
	b.wake()
	return nil
}

// pause stops or continues every process except this one. It sends the signal twice, for a process that starts in
// between.
func (b *Box) pause(on bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.paused == on {
		return core.Errorf(core.KindConflict, "pause", b.config.ID, "the sandbox has ended, or is already in this state")
	}
	b.paused = on
	number, state := unix.SIGCONT, core.StateRunning
	if on {
		number, state = unix.SIGSTOP, core.StatePaused
	}
	for range 2 {
		if err := unix.Kill(-1, number); err != nil && err != unix.ESRCH {
			return err
		}
	}
	b.say(wire.State{State: state, Expires: b.expires, Fixed: b.fixed})
	return nil
}

// terminate ends every process. Commands get grace to end by themselves.
func (b *Box) terminate(grace time.Duration) {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	running := b.commands.Running()
	wait := func(limit time.Duration) {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for _, c := range running {
			select {
			case <-c.Done():
			case <-timer.C:
				return
			}
		}
	}
	if grace > 0 {
		// The first process itself is spared by the kernel.
		_ = unix.Kill(-1, command.StopSignal(b.config.Spec, b.config.StopSignal))
		wait(grace)
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	wait(endGrace)
}
