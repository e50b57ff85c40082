package modaltest

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// lastWords is the time limit for the exit of a command whose sandbox has ended.
const lastWords = 5 * time.Second

// keptCommands is the number of ended commands that a sandbox keeps, with their output.
const keptCommands = 200

// command is a command in a sandbox, or its entry command.
type command struct {
	id             string
	stdout, stderr *spool
	// done is closed when exit or err is set and all output is in the spools.
	done chan struct{}
	exit core.Exit
	err  error

	mu      sync.Mutex
	started bool
	process core.Process
	cancel  context.CancelFunc
	// stdin receives the command's input; nil before the start and after the end.
	stdin   *os.File
	written uint64
	closed  bool
}

func (s *Server) newCommand(id string) (*command, error) {
	stdout, err := newSpool(s.dir)
	if err != nil {
		return nil, err
	}
	stderr, err := newSpool(s.dir)
	if err != nil {
		return nil, errors.Join(err, stdout.free())
	}
	return &command{id: id, stdout: stdout, stderr: stderr, done: make(chan struct{})}, nil
}

func (c *command) spoolsEnd() {
	c.stdout.end()
	c.stderr.end()
}

// start starts a command. Streams that are nil in spec go to the spools.
func (s *Server) start(ctx context.Context, box *sandbox, c *command, spec core.ExecSpec) error {
	stdinR, stdinW, err := os.Pipe()
	if err != nil {
		return err
	}
	spec.Stdin = stdinR
	if spec.Stdout == nil {
		spec.Stdout = c.stdout
	}
	if spec.Stderr == nil && !spec.TTY {
		spec.Stderr = c.stderr
	}
	s.active(box, 1, c == box.entry)
	process, err := s.opts.Backend.Exec(ctx, box.backend.ID, spec)
	_ = stdinR.Close()
	if err != nil {
		_ = stdinW.Close()
		c.finish(core.Exit{}, err)
		s.active(box, -1, c == box.entry)
		s.retire(box, c)
		return err
	}
	life, cancel := context.WithCancel(s.ctx)
	c.mu.Lock()
	c.started, c.process, c.cancel, c.stdin = true, process, cancel, stdinW
	c.mu.Unlock()
	s.work.Go(func() {
		defer cancel()
		// Unread output blocks a command. An interrupted command must not wait for a reader.
		defer context.AfterFunc(life, c.spoolsEnd)()
		exit, err := process.Wait(life)
		c.finish(exit, err)
		_ = process.Close()
		s.active(box, -1, c == box.entry)
		s.retire(box, c)
	})
	return nil
}

// retire records that a command has ended. Beyond keptCommands it removes the command that ended first, because each
// holds open files.
func (s *Server) retire(box *sandbox, c *command) {
	if c == box.entry {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	box.retired = append(box.retired, c)
	if len(box.retired) <= keptCommands {
		return
	}
	oldest := box.retired[0]
	box.retired = box.retired[1:]
	delete(box.commands, oldest.id)
	if err := errors.Join(oldest.stdout.free(), oldest.stderr.free()); err != nil {
		s.log.Debug("a command's output could not be freed", "error", err)
	}
}

// active counts the activities that keep a sandbox from being idle: commands, file operations and connections. An entry
// command does not count, but its input does, with by 0.
func (s *Server) active(box *sandbox, by int, entry bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	box.lastActive = time.Now()
	if !entry {
		box.busy += by
	}
}

// finish records the end. Callers call it once.
func (c *command) finish(exit core.Exit, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil {
		_ = c.stdin.Close()
		c.stdin = nil
	}
	c.exit, c.err, c.started = exit, err, true
	c.spoolsEnd()
	close(c.done)
}

// abandon ends a command whose sandbox has ended. A command of the backend has a moment to report its exit. The file
// tool runs in the server and is interrupted at once.
func (c *command) abandon(ctx context.Context) {
	c.mu.Lock()
	started, process, cancel := c.started, c.process, c.cancel
	c.mu.Unlock()
	switch {
	case !started:
		c.spoolsEnd()
	case process == nil && cancel != nil:
		cancel()
	case cancel != nil:
		patience, stop := context.WithTimeout(ctx, lastWords)
		defer stop()
		select {
		case <-c.done:
		case <-patience.Done():
			cancel()
		}
	}
}

// write passes on input from an offset. It skips bytes that it already has, because a client resends input after a lost
// answer.
func (c *command) write(offset uint64, data []byte, eof bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case offset > c.written:
		return status.Errorf(codes.InvalidArgument, "stdin has %d bytes, not %d", c.written, offset)
	case c.closed && (offset+uint64(len(data)) > c.written):
		return status.Error(codes.FailedPrecondition, "stdin is closed")
	}
	data = data[min(uint64(len(data)), c.written-offset):]
	for len(data) > 0 {
		stdin := c.stdin
		if stdin == nil {
			return status.Error(codes.FailedPrecondition, "the command has ended")
		}
		// A write to a full pipe blocks. Without mu it does not keep finish from recording the command's end.
		c.mu.Unlock()
		n, err := stdin.Write(data)
		c.mu.Lock()
		c.written += uint64(n) //nolint:gosec // not negative
		data = data[n:]
		if err != nil {
			return status.Error(codes.FailedPrecondition, "the command no longer reads")
		}
	}
	if eof && !c.closed {
		c.closed = true
		if c.stdin != nil {
			_ = c.stdin.Close()
			c.stdin = nil
		}
	}
	return nil
}

// status returns the number of accepted input bytes.
func (c *command) status() (written uint64, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written, c.closed || c.stdin == nil
}

func terminalSize(pty *pb.PTYInfo) core.TerminalSize {
	//nolint:gosec // a terminal's size
	return core.TerminalSize{Rows: uint16(pty.GetWinszRows()), Cols: uint16(pty.GetWinszCols())}
}

func terminalEnv(pty *pb.PTYInfo) map[string]string {
	env := map[string]string{}
	if pty.GetEnvTerm() != "" {
		env["TERM"] = pty.GetEnvTerm()
	}
	if pty.GetEnvColorterm() != "" {
		env["COLORTERM"] = pty.GetEnvColorterm()
	}
	return env
}
