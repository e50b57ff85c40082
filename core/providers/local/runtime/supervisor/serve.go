//go:build linux

package supervisor

import (
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
)

// endSeen bounds the delay until this process notices the end of a sandbox's kernel.
const endSeen = time.Second

// Exec implements socket.Server. The command keeps running after the client disconnects.
func (s *Supervisor) Exec(stream grpc.BidiStreamingServer[socket.Ask, socket.Answer], files *socket.Files) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	broken := make(chan core.Stream, 2)
	c, client, err := s.open(first.Request, files, broken)
	if err != nil {
		return stream.Send(&socket.Answer{Reply: &wire.Reply{Error: guest.Fail(err)}})
	}
	if err := stream.Send(&socket.Answer{Started: &wire.Started{ID: c.ID()}}); err != nil {
		client.abandon()
		return err
	}
	var sending sync.WaitGroup
	sending.Go(func() { report(c, stream, broken) })
	defer sending.Wait()
	for {
		request, err := stream.Recv()
		if err != nil {
			client.abandon()
			return nil //nolint:nilerr // a client may leave at any time
		}
		if request.Control == nil {
			continue
		}
		if err := c.Obey(*request.Control); err != nil {
			s.log.Warn("a client's request failed", "exec", c.ID(), "error", err)
		}
	}
}

// open starts the requested command, or finds it for an attach. broken receives the outputs whose reader is gone.
func (s *Supervisor) open(
	first *wire.Request, files *socket.Files, broken chan<- core.Stream,
) (c *command.Command, client streams, err error) {
	switch {
	case first == nil || first.Verb != wire.VerbExec && first.Verb != wire.VerbAttach:
		return nil, client, core.Errorf(core.KindUsage, "exec", "", "the first message is not a request for a command")
	case first.Verb == wire.VerbAttach:
		if c = s.commands.Get(first.Exec); c == nil {
			return nil, client, core.Errorf(
				core.KindNotFound, "attach", first.Exec, "no command %q runs in the sandbox", first.Exec,
			)
		}
		if stdin, err := files.Take(1); err == nil {
			client.stdin = stdin[0]
			s.feed(c, client.stdin, false)
		}
		return c, client, nil
	}
	count := 0
	for _, there := range []bool{first.Stdin, first.Stdout, first.Stderr} {
		if there {
			count++
		}
	}
	clients, err := files.Take(count)
	if err != nil {
		return nil, client, err
	}
	client = announced(&first.Command, clients)
	c, err = s.commands.Run(&first.Command, client.outputs(broken))
	switch {
	case client.stdin == nil:
	case err != nil || c.Ended():
		_ = client.stdin.Close()
	default:
		s.feed(c, client.stdin, true)
	}
	return c, client, err
}

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool {
	raw, err := f.SyscallConn() // Fd would make it blocking
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) {
		_, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		is = err == nil
	})
	return err == nil && is
}

// report sends broken streams and the command's exit to the client. It returns when the command or the call ends.
func report(c *command.Command, stream grpc.BidiStreamingServer[socket.Ask, socket.Answer], broken <-chan core.Stream) {
	for {
		select {
		case one := <-broken:
			if stream.Send(&socket.Answer{Broken: one}) != nil {
				return
			}
		case <-c.Done():
			exit := c.Exit()
			_ = stream.Send(&socket.Answer{Reply: &wire.Reply{Exit: &exit}})
			return
		case <-stream.Context().Done():
			return
		}
	}
}

// Control implements socket.Server.
func (s *Supervisor) Control(ctx context.Context, request *wire.Request, files *socket.Files) *wire.Reply {
	reply := &wire.Reply{}
	var err error
	switch request.Verb {
	case wire.VerbStats:
		reply.Stats, err = s.stats()
	case wire.VerbPause:
		err = s.pause()
	case wire.VerbResume:
		err = s.resume()
	case wire.VerbExpire:
		err = s.expire(request.Expires, request.Lease)
	case wire.VerbSecrets:
		reply.Secrets = s.given()
	case wire.VerbStop:
		err = s.stop(ctx, request.Grace)
	case wire.VerbEnd:
		s.finish(end{core.StateExited, core.ReasonStopped, "it was terminated"})
	case wire.VerbCheckpoint:
		reply.Kept, err = s.checkpoint(ctx, request.Dir)
	case wire.VerbSnapshot:
		err = s.snapshot(ctx, request.Dir)
	case wire.VerbDiff:
		err = s.diff(files)
	case wire.VerbLayer:
		err = s.layer(files)
	case wire.VerbDenials:
		reply.Denials = s.denials()
	case wire.VerbNetwork:
		err = s.setNetwork(request.Network)
	case wire.VerbDial:
		err = s.forward(ctx, request.Port, files)
	case wire.VerbFiles:
		reply.Exit, err = s.files(ctx, request.File, files)
	case wire.VerbExec, wire.VerbAttach, wire.VerbFile, wire.VerbExecs, wire.VerbLogs:
		fallthrough
	default:
		err = core.Errorf(core.KindUnsupported, string(request.Verb), "", "the supervisor does not support %q", request.Verb)
	}
	reply.Error = guest.Fail(err)
	return reply
}

// files runs sb-guest with the client's descriptors. The data does not pass through this process.
func (s *Supervisor) files(ctx context.Context, argv []string, files *socket.Files) (*core.Exit, error) {
	streams, err := files.Take(3)
	if err != nil {
		return nil, err
	}
	defer closeAll(streams)
	if err := s.acquire(); err != nil {
		return nil, err
	}
	defer s.release()
	if err := s.helpers.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer s.helpers.Release(1)
	who, err := s.user(s.defaultUser())
	if err != nil {
		return nil, err
	}
	process, err := s.box.Exec(ctx, engine.Command{
		Argv: argv, Env: s.environment(who.Home, s.launch.Spec.Env), Dir: "/", UID: who.UID, GID: who.GID, Files: streams,
		Program: s.box.Guest(), Hidden: true,
	})
	if err != nil {
		return nil, s.whyNotBegun(err)
	}
	closeAll(streams)
	ended := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() { endWithClient(ctx, process, ended) })
	exit, err := process.Wait()
	close(ended)
	ending.Wait()
	if err != nil {
		why := s.whyEnded()
		return nil, core.Errorf(core.KindConflict, "files", s.launch.ID, "the sandbox ended: %s", why.message)
	}
	if exit.Signal != 0 {
		exit.Code = 128 + int(exit.Signal)
	}
	return &core.Exit{Code: exit.Code, Signal: int(exit.Signal)}, nil
}

// helperGrace bounds the time of sb-guest to undo an unfinished operation.
const helperGrace = 5 * time.Second

// endWithClient ends a file operation whose client has disconnected. It does nothing after ended is closed. Root inside
// can stop sb-guest, so the second signal is SIGKILL.
func endWithClient(ctx context.Context, helper *engine.Process, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	_ = helper.Signal(unix.SIGTERM) // it may have ended by now
	grace := time.NewTimer(helperGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		_ = helper.Signal(unix.SIGKILL)
	}
}

// stats measures the sandbox without waking it.
func (s *Supervisor) stats() (*core.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, core.Errorf(core.KindConflict, "stats", s.launch.ID, "the sandbox has ended")
	}
	if !s.frozen {
		usage, err := s.box.Usage()
		if err != nil {
			return nil, err
		}
		s.usage = usage
	}
	spec := s.launch.Spec
	stats := &core.Stats{
		Sandbox: s.launch.ID, Time: time.Now(), Frozen: s.frozen, CPU: s.usage.CPU, CPULimit: spec.CPU,
		Memory: core.Bytes(s.usage.Memory), MemoryLimit: spec.Memory, Disk: core.Bytes(s.usage.Disk), DiskLimit: spec.Disk,
		Processes: max(s.usage.Processes-1-s.spawned()-s.forwards, 0), // sb-guest does not count
	}
	net := s.stack.Stats()
	stats.NetReceived, stats.NetSent, stats.Denied = core.Bytes(net.Received), core.Bytes(net.Sent), int(net.Denied)
	return stats, nil
}

func (s *Supervisor) pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused || s.over {
		return core.Errorf(core.KindConflict, "pause", s.launch.ID, "the sandbox is not running")
	}
	if err := s.thaw(); err != nil {
		return err
	}
	if err := s.box.Pause(); err != nil {
		return err
	}
	s.paused, s.state.State = true, core.StatePaused
	return s.saveLocked(false)
}

func (s *Supervisor) resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.paused || s.over {
		return core.Errorf(core.KindConflict, "resume", s.launch.ID, "the sandbox is not paused")
	}
	if err := s.box.Resume(); err != nil {
		return err
	}
	s.paused, s.state.State = false, core.StateRunning
	s.freezeAt = time.Now().Add(s.launch.FreezeAfter)
	s.wake()
	return s.saveLocked(false)
}

// given returns the secrets of the sandbox and its commands.
func (s *Supervisor) given() []wire.Secret {
	var list []wire.Secret
	for _, secret := range s.commands.Secrets.All() {
		list = append(list, wire.Secret{Name: secret.Name, Value: secret.Value.Reveal()})
	}
	return list
}

// expire sets the end of the lifetime; zero is never. A lease does not change an end that was set without one.
func (s *Supervisor) expire(at time.Time, lease bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Fixed && lease {
		return nil
	}
	s.state.Expires, s.state.Fixed = at, !lease
	s.wake()
	return s.saveLocked(true)
}

// stop signals every process to end, saves the filesystem and ends the sandbox.
func (s *Supervisor) stop(ctx context.Context, grace time.Duration) error {
	if !s.launch.Spec.Persist {
		return core.Errorf(
			core.KindConflict, "stop", s.launch.Spec.Name, "the sandbox is not persistent: stopping would lose its files",
		).
			WithHint("launch it with --persist, or end it with: sb terminate %s", s.launch.Spec.Name)
	}
	s.stopping.Lock()
	defer s.stopping.Unlock()
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	if err := s.box.SignalAll(s.stopSignal()); err != nil {
		s.log.Warn("the processes could not be signaled to end", "error", err)
	}
	s.awaitQuiet(ctx, grace)
	s.mu.Lock()
	err := s.saveFilesystem()
	if err == nil {
		s.over = true // later writes would be lost
	}
	s.mu.Unlock()
	if err != nil && s.hasEnded() {
		return core.Errorf(
			core.KindConflict, "stop", s.launch.Spec.Name, "the sandbox ended before it was saved: %s", s.whyEnded().message,
		)
	}
	if err != nil {
		return classifyAs("stop", "the file system could not be saved; the sandbox keeps running", err)
	}
	s.finish(end{core.StateStopped, core.ReasonStopped, ""})
	return nil
}

// stopSignal returns the signal that asks the sandbox's processes to end.
func (s *Supervisor) stopSignal() unix.Signal {
	ofImage := ""
	if s.launch.Root != nil {
		ofImage = s.launch.Root.StopSignal
	}
	return command.StopSignal(s.launch.Spec, ofImage)
}

// hasEnded reports whether the sandbox's kernel is gone, after it did not answer. It waits up to endSeen for the end.
func (s *Supervisor) hasEnded() bool {
	select {
	case <-s.box.Done():
		return true
	case <-time.After(endSeen):
		return false
	}
}

// awaitQuiet waits until only the first process is left, or grace has passed.
func (s *Supervisor) awaitQuiet(ctx context.Context, grace time.Duration) {
	const poll = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if usage, err := s.box.Usage(); err != nil || usage.Processes <= 1 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

var _ socket.Server = (*Supervisor)(nil)
