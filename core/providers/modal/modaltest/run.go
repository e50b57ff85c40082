package modaltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// run launches a sandbox in the backend and supervises it until its end.
func (s *Server) run(box *sandbox, below *image) {
	defer box.giveUp()
	backend, err := s.prepare(box, below)
	if err != nil {
		result := pb.GenericResult_builder{
			Status: pb.GenericResult_GENERIC_STATUS_INIT_FAILURE, Exception: err.Error(), Exitcode: 1,
		}.Build()
		if box.wanted.Err() != nil {
			result = terminated()
		}
		s.conclude(box, result)
		if box.exit != nil {
			box.exit.err = errors.New("the Sandbox never ran")
			close(box.exit.done)
		}
		box.entry.spoolsEnd()
		close(box.ready)
		return
	}
	s.mu.Lock()
	box.backend, box.lastActive, box.startedAt = backend, time.Now(), time.Now()
	s.mu.Unlock()
	begin := s.startEntry
	if box.entryInside {
		begin = s.follow
	}
	if err := begin(box); err != nil {
		s.conclude(box, pb.GenericResult_builder{
			Status: pb.GenericResult_GENERIC_STATUS_INIT_FAILURE, Exception: err.Error(), Exitcode: 127,
		}.Build())
		box.entry.spoolsEnd()
		s.releaseQuietly(box)
	}
	box.begun = time.Now()
	close(box.ready)
	s.supervise(box)
}

// prepare launches the backend's sandbox from its image, with its volumes.
func (s *Server) prepare(box *sandbox, below *image) (core.Sandbox, error) {
	if err := pause(box.wanted, s.opts.Faults.wait()); err != nil {
		return core.Sandbox{}, err
	}
	spec := box.spec(s, below)
	volumes, err := s.mount(box)
	if err != nil {
		return core.Sandbox{}, err
	}
	spec.Volumes = volumes
	backend, err := s.opts.Backend.Launch(s.ctx, spec, s.lease(time.Duration(spec.Timeout)), nil)
	if err != nil {
		return backend, err
	}
	if below.python() && box.from == nil {
		// This machine may have Python only as python3.
		err = s.shell(s.ctx, backend.ID, nil, nil, linkPython)
	}
	if err == nil && box.workdir != "" && box.workdir != "/" && box.from == nil {
		err = s.makeDirectory(s.ctx, backend.ID, path.Clean(box.workdir))
	}
	if err == nil {
		backend.Ports, err = s.publish(box, backend)
	}
	if err != nil {
		return backend, errors.Join(err, s.opts.Backend.Terminate(context.WithoutCancel(s.ctx), backend.ID))
	}
	return backend, nil
}

func (s *Server) makeDirectory(ctx context.Context, id, dir string) error {
	files, ok := s.opts.Backend.(core.FileSystem)
	if !ok {
		return core.Errorf(core.KindUnsupported, "modal.serve", s.opts.Backend.Name(), "the backend has no files")
	}
	return files.Mkdir(ctx, id, dir, true)
}

// linkPython links python3 to python, the name in Python's images.
const linkPython = `command -v python >/dev/null || ! command -v python3 >/dev/null || ln -s "$(command -v python3)" /usr/local/bin/python; `

// entryCommand returns the entry command for the backend. It includes all preparations, because no other command can
// run in the sandbox before it.
func (b *sandbox) entryCommand(below *image) []string {
	script := ""
	if below.python() {
		script += linkPython
	}
	dir := path.Clean("/" + b.workdir)
	if script == "" && dir == "/" {
		return b.definition.GetEntrypointArgs()
	}
	return append([]string{"sh", "-c", script +
		`mkdir -p -- "$0" && cd -- "$0" && exec "$@"`, dir}, b.definition.GetEntrypointArgs()...)
}

// startEntry starts the entry command, if the sandbox has one. Otherwise the sandbox sleeps.
func (s *Server) startEntry(box *sandbox) error {
	d := box.definition
	if !box.hasEntry {
		return nil
	}
	// A missing program is an error before the sandbox counts as started. Without a shell there is no such check.
	program := d.GetEntrypointArgs()[0]
	code, err := s.runIn(s.ctx, box.backend.ID, core.ExecSpec{
		Command: []string{"sh", "-c", `command -v -- "$1" >/dev/null || exit 3`, "sh", program}, Workdir: box.workdir,
	}, io.Discard)
	if err == nil && code == 3 {
		return fmt.Errorf("executable file %q not found", program)
	}
	spec := core.ExecSpec{Command: d.GetEntrypointArgs(), Workdir: box.workdir}
	if pty := d.GetPtyInfo(); pty.GetEnabled() {
		spec.TTY, spec.Size = true, terminalSize(pty)
		spec.Env = terminalEnv(pty)
	}
	return s.start(s.ctx, box, box.entry, spec)
}

// await waits until a sandbox runs or its launch has failed.
func (b *sandbox) await(ctx context.Context) error {
	select {
	case <-b.ready:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// supervise waits for the first event that ends a sandbox.
func (s *Server) supervise(box *sandbox) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	gone := make(chan core.Sandbox, 1)
	s.work.Go(func() {
		waiter, ok := s.opts.Backend.(core.Waiter)
		if !ok {
			return
		}
		if end, err := waiter.WaitSandbox(ctx, box.backend.ID); err == nil || ctx.Err() == nil {
			gone <- end
		}
	})
	var entry <-chan struct{}
	if box.hasEntry && !box.entryInside { // otherwise the backend reports its end
		entry = box.entry.done
	}
	var over <-chan time.Time
	if box.exit != nil { // else the backend ends it
		life := time.NewTimer(box.life())
		defer life.Stop()
		over = life.C
	}
	idle := time.NewTicker(50 * time.Millisecond)
	defer idle.Stop()
	// Modal commits what a sandbox writes to its volumes every few seconds.
	commit := time.NewTicker(commitEvery)
	defer commit.Stop()
	for {
		select {
		case <-box.ended:
			return
		case <-entry:
			if box.entry.err == nil && box.entry.exit.Reason != "" {
				entry = nil // a limit ended the whole sandbox, and gone reports it
				continue
			}
			// The volumes have the command's writes before a waiter sees its end.
			if err := box.commit(); err != nil {
				s.log.Warn("volumes were not committed", "sandbox", box.id, "error", err)
			}
			s.conclude(box, entryResult(box.entry))
			s.releaseQuietly(box)
			return
		case end := <-gone:
			if box.entryInside && end.Reason == core.ReasonCommand && end.ExitCode != nil {
				<-box.entry.done // with all its output
				s.conclude(box, exitResult(core.Exit{Code: *end.ExitCode}))
				s.releaseQuietly(box)
				return
			}
			s.conclude(box, endResult(end))
			s.releaseQuietly(box)
			return
		case <-over:
			s.conclude(box, timedOut())
			s.releaseQuietly(box)
			return
		case <-commit.C:
			if err := box.commit(); err != nil {
				s.log.Warn("volumes were not committed", "sandbox", box.id, "error", err)
			}
		case <-idle.C:
			if s.idle(box) {
				s.conclude(
					box, pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_IDLE_TIMEOUT, Exitcode: 124}.Build(),
				)
				s.releaseQuietly(box)
				return
			}
		case <-s.ctx.Done():
			s.conclude(box, terminated())
			if err := s.release(box); err != nil {
				s.mu.Lock()
				s.kept = append(s.kept, err)
				s.mu.Unlock()
			}
			return
		}
	}
}

// idle reports whether a sandbox has exceeded its idle timeout.
func (s *Server) idle(box *sandbox) bool {
	limit := time.Duration(box.definition.GetIdleTimeoutSecs()) * time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	return limit > 0 && box.busy == 0 && time.Since(box.lastActive) > limit
}

func entryResult(entry *command) *pb.GenericResult {
	exit, err := entry.exit, entry.err
	if err != nil {
		return lost(err.Error())
	}
	return exitResult(exit)
}

func exitResult(exit core.Exit) *pb.GenericResult {
	kind := pb.GenericResult_GENERIC_STATUS_SUCCESS
	if exit.Code != 0 {
		kind = pb.GenericResult_GENERIC_STATUS_FAILURE
	}
	if exit.Code == 127 || exit.Code == 126 {
		kind = pb.GenericResult_GENERIC_STATUS_INIT_FAILURE
	}
	//nolint:gosec // 0 to 255
	return pb.GenericResult_builder{Status: kind, Exitcode: int32(exit.Code), Exception: exit.Message}.Build()
}

// endResult returns the result of a sandbox that the backend ended.
func endResult(end core.Sandbox) *pb.GenericResult {
	if end.State == core.StateLost {
		return lost(end.Message)
	}
	if end.Reason == core.ReasonTimeout {
		return timedOut()
	}
	kind := pb.GenericResult_GENERIC_STATUS_TERMINATED
	if end.Reason == core.ReasonMemory {
		kind = pb.GenericResult_GENERIC_STATUS_FAILURE
	}
	return pb.GenericResult_builder{Status: kind, Exitcode: 137, Exception: end.Message}.Build()
}

// conclude makes a result final; the first one stays.
func (s *Server) conclude(box *sandbox, result *pb.GenericResult) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if box.result != nil {
		return false
	}
	box.result, box.endedAt = result, time.Now()
	close(box.ended)
	return true
}

// lost returns the result of a sandbox whose end is unknown.
func lost(why string) *pb.GenericResult {
	return pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_INTERNAL_FAILURE, Exception: why}.Build()
}

// timedOut returns the result of a sandbox whose lifetime is over.
func timedOut() *pb.GenericResult {
	return pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_TIMEOUT, Exitcode: 124}.Build()
}

// terminated returns the result of a terminated sandbox.
func terminated() *pb.GenericResult {
	return pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_TERMINATED, Exitcode: 137}.Build()
}

// terminate ends a sandbox at a client's request.
func (s *Server) terminate(ctx context.Context, box *sandbox) error {
	box.giveUp()
	if err := box.await(ctx); err != nil {
		return err
	}
	if !s.conclude(box, terminated()) {
		return nil
	}
	return s.release(box)
}

// releaseQuietly releases a sandbox that ended without a request. It logs an error instead of returning it.
func (s *Server) releaseQuietly(box *sandbox) {
	if err := s.release(box); err != nil {
		s.log.Warn("the backend's sandbox could not be ended", "sandbox", box.id, "error", err)
	}
}

// release takes an exit snapshot, saves volumes and ends the backend's sandbox. Output stays readable.
func (s *Server) release(box *sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()
	s.keepExit(ctx, box)
	err := s.opts.Backend.Terminate(ctx, box.backend.ID)
	if errors.Is(err, core.KindNotFound) {
		err = nil
	}
	if s.ctx.Err() == nil { // volumes end with the server
		if err := box.commit(); err != nil {
			s.log.Warn("volumes were not committed", "sandbox", box.id, "error", err)
		}
	}
	err = errors.Join(err, os.RemoveAll(s.mountDir(box)))
	s.mu.Lock()
	commands := []*command{box.entry}
	for _, c := range box.commands {
		commands = append(commands, c)
	}
	s.mu.Unlock()
	var ends sync.WaitGroup
	for _, c := range commands {
		ends.Go(func() { c.abandon(ctx) })
	}
	ends.Wait()
	return err
}
