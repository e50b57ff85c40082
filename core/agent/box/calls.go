//go:build linux

package box

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/journal"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// requestTimeout bounds the time that a caller may take to send its request.
const requestTimeout = 30 * time.Second

// engineLinger is how long a call through an engine stays open after its answer, for a client that may still send.
// Podman loses the answer when input is left over. A call through the door needs no such time.
const engineLinger = 5 * time.Second

// serve accepts calls until the process ends. Answered calls wait for linger at most until their clients leave.
func (b *Box) serve(from *os.File, next func(*os.File) (*os.File, error), linger time.Duration) {
	for {
		conn, err := next(from)
		switch {
		case err != nil:
			// Out of descriptors or memory: running calls release them.
			time.Sleep(10 * time.Millisecond)
		case conn != nil:
			go b.call(conn, linger)
		}
	}
}

// call serves one call. It closes conn at the end, which ends the process that carries the call.
func (b *Box) call(conn *os.File, linger time.Duration) {
	defer func() { _ = conn.Close() }()
	files, err := take(conn)
	if err != nil {
		return
	}
	_, _ = conn.Write([]byte{0}) // the caller may wait for this confirmation
	c := &client{from: files[0], to: files[1], linger: linger}
	defer c.close()
	defer func() { _ = files[2].Close() }()
	for further := false; ; further = true {
		_ = c.from.SetReadDeadline(time.Now().Add(requestTimeout))
		kind, payload, err := wire.ReadFrame(c.from, nil)
		if err != nil || kind != wire.FrameRequest {
			return
		}
		_ = c.from.SetReadDeadline(time.Time{})
		request, err := wire.Verify(b.key, payload)
		file := request.Verb == wire.VerbFiles || request.Verb == wire.VerbFile
		switch {
		case err != nil:
			c.fail(err)
			return
		case further && !file:
			c.fail(wire.ErrFrame)
			return
		case further && !c.send(wire.FrameRequestAck, nil):
			return
		}
		if request.Verb == wire.VerbFile {
			c.reply(b.file(request))
			continue
		}
		if request.Verb == wire.VerbFiles {
			b.files(request, c, files)
		} else if err := b.answer(request, c); err != nil {
			c.fail(err)
		}
		return
	}
}

// answer carries out a request and replies, or returns an error.
func (b *Box) answer(r wire.Request, c *client) error {
	switch r.Verb {
	case wire.VerbExec:
		return b.exec(r, c)
	case wire.VerbAttach:
		return b.attach(r, c)
	case wire.VerbExecs:
		return b.execs(c)
	case wire.VerbLogs:
		return b.logs(r, c)
	case wire.VerbDial:
		return b.dial(r, c)
	case wire.VerbExpire:
		if err := b.expire(r.Expires, r.Issued, r.Lease); err != nil {
			return err
		}
		c.reply(wire.Reply{})
		return nil
	case wire.VerbStop:
		if !b.config.Spec.Persist {
			return core.Errorf(core.KindConflict, "stop", b.config.Spec.Name, "the sandbox is not persistent")
		}
		c.reply(wire.Reply{})
		b.finish(b.stopped(r.Grace))
		return nil
	case wire.VerbPause, wire.VerbResume:
		if err := b.pause(r.Verb == wire.VerbPause); err != nil {
			return err
		}
		c.reply(wire.Reply{})
		return nil
	case wire.VerbStats:
		used, err := usage()
		if err == nil {
			c.reply(wire.Reply{Stats: &used})
		}
		return err
	case wire.VerbFiles, wire.VerbFile: // served before
	case wire.VerbSecrets, wire.VerbEnd, wire.VerbCheckpoint, wire.VerbSnapshot, wire.VerbDiff, wire.VerbLayer,
		wire.VerbDenials, wire.VerbNetwork:
	}
	return core.Errorf(core.KindUnsupported, string(r.Verb), "", "containers do not support %q", r.Verb)
}

func (b *Box) exec(r wire.Request, c *client) error {
	to := &command.Client{Started: func(id string) { c.sendJSON(wire.FrameStarted, wire.Started{ID: id}) }}
	if !r.Detach {
		to.Stdout, to.Stderr = output{c, wire.FrameStdout}, output{c, wire.FrameStderr}
	}
	cmd, err := b.commands.Run(&r.Command, to)
	if err != nil || r.Detach {
		return err
	}
	feed := newFeeder()
	go func() {
		feed.run(cmd.Stdin, c)
		cmd.CloseStdin()
	}()
	left := make(chan struct{})
	go func() {
		defer close(left)
		defer feed.end()
		b.obey(cmd, c, feed)
	}()
	exit := cmd.Exit()
	c.finish(wire.Reply{Exit: &exit})
	c.outlast(left)
	return nil
}

// obey carries out the client's frames until the client leaves.
func (b *Box) obey(cmd *command.Command, c *client, feed *feeder) {
	buffer := make([]byte, 64<<10)
	for {
		kind, payload, err := wire.ReadFrame(c.from, buffer)
		if err != nil {
			return
		}
		switch kind {
		case wire.FrameStdin:
			feed.add(payload)
		case wire.FrameStdinEnd:
			feed.end()
		case wire.FrameControl:
			var control wire.Control
			if json.Unmarshal(payload, &control) != nil {
				return
			}
			if control.Broken != "" {
				_ = cmd.Obey(control)
				continue
			}
			c.control(func() error { return cmd.Obey(control) })
		}
	}
}

// execs sends the journal's entries. Each is signed, because root in the sandbox may control the process that carries
// them to the caller.
func (b *Box) execs(c *client) error {
	execs, err := b.journal().All()
	if err != nil {
		return err
	}
	for _, exec := range execs {
		payload, err := b.journal().Encode(exec)
		if err != nil {
			return err
		}
		if !c.send(wire.FrameExec, payload) {
			return nil
		}
	}
	c.reply(wire.Reply{})
	return nil
}

// attach follows a command's output in the journal; its stdin and controls are as in exec.
func (b *Box) attach(r wire.Request, c *client) error {
	cmd := b.commands.Get(r.Exec)
	entry, err := b.journal().Read(r.Exec)
	if errors.Is(err, fs.ErrNotExist) {
		return noCommand(r.Exec)
	}
	if err != nil {
		return err
	}
	c.sendJSON(wire.FrameStarted, wire.Started{ID: r.Exec})
	opts := core.LogOptions{Exec: r.Exec, Follow: true, Tail: -1}
	if !r.Replay {
		opts.Since = time.Now()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := func() bool { return true }
	left := make(chan struct{})
	if cmd != nil {
		ended = cmd.Ended
		feed := newFeeder()
		go feed.run(cmd.Stdin, c)
		go func() {
			defer close(left)
			defer cancel()
			defer feed.end()
			b.obey(cmd, c, feed)
		}()
	}
	for record, err := range journal.Records(ctx, b.dir.Journal(), r.Exec, opts, ended) {
		if err != nil {
			return err
		}
		kind := byte(wire.FrameStdout)
		if record.Stream == core.Stderr {
			kind = wire.FrameStderr
		}
		if !c.send(kind, record.Data) {
			return nil
		}
	}
	if cmd != nil {
		exit := cmd.Exit()
		c.finish(wire.Reply{Exit: &exit})
		c.outlast(left)
		return nil
	}
	if entry.Exit == nil {
		return core.Errorf(
			core.KindConflict, "attach", r.Exec, "the exit code is unknown: the sandbox stopped while the command ran",
		)
	}
	c.reply(wire.Reply{Exit: entry.Exit})
	return nil
}

func noCommand(id string) error {
	return core.Errorf(core.KindNotFound, "exec", id, "the sandbox has no command %q", id)
}

func (b *Box) logs(r wire.Request, c *client) error {
	if _, err := b.journal().Read(r.Exec); errors.Is(err, fs.ErrNotExist) {
		return noCommand(r.Exec)
	}
	cmd := b.commands.Get(r.Exec)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _, _ = wire.ReadFrame(c.from, nil) // only the client's end can follow
	}()
	opts := core.LogOptions{Exec: r.Exec, Follow: r.Follow, Tail: r.Tail, Since: r.Since, Until: r.Until}
	var payload []byte
	for record, err := range journal.Records(ctx, b.dir.Journal(), r.Exec, opts, func() bool {
		return cmd == nil ||
			cmd.Ended()
	}) {
		if err != nil {
			return err
		}
		payload = wire.AppendRecord(payload[:0], record)
		if !c.send(wire.FrameRecord, payload) {
			return nil
		}
	}
	c.reply(wire.Reply{})
	return nil
}

// files runs sb-guest on the caller's own descriptors, so the content does not pass through the box.
func (b *Box) files(r wire.Request, c *client, files []*os.File) {
	done, err := b.operate(r, files)
	if err != nil {
		_, _ = files[2].Write(failedReport(err))
	}
	if !done {
		_ = unix.SetNonblock(int(c.from.Fd()), true) // for the deadline
		left := make(chan struct{})
		go func() {
			defer close(left)
			_, _ = io.Copy(io.Discard, c.from)
		}()
		c.outlast(left)
	}
}

// maxAnswer bounds the answer to a VerbFile, in bytes.
const maxAnswer = 1 << 20

// file runs sb-guest without a body and returns its answer.
func (b *Box) file(r wire.Request) (reply wire.Reply) {
	failed := func(err error) wire.Reply { return wire.Reply{Report: failedReport(err)} }
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return failed(err)
	}
	answerFrom, answerTo, err := os.Pipe()
	if err != nil {
		return failed(errors.Join(err, nothing.Close()))
	}
	reportFrom, reportTo, err := os.Pipe()
	if err != nil {
		closeAll([]*os.File{nothing, answerFrom, answerTo})
		return failed(err)
	}
	var wg sync.WaitGroup
	for to, from := range map[*[]byte]*os.File{&reply.Answer: answerFrom, &reply.Report: reportFrom} {
		wg.Go(func() {
			*to, _ = io.ReadAll(io.LimitReader(from, maxAnswer))
			_ = from.Close()
		})
	}
	_, err = b.operate(r, []*os.File{nothing, answerTo, reportTo})
	closeAll([]*os.File{nothing, answerTo, reportTo})
	wg.Wait()
	if err != nil {
		return failed(err)
	}
	return reply
}

// failedReport returns err as a report of sb-guest.
func failedReport(err error) []byte {
	var report guest.Report
	report.Fail("", err)
	text, err := json.Marshal(report)
	if err != nil {
		return nil
	}
	return text
}

// operate runs sb-guest to its end and reports whether it succeeded. An error means that sb-guest did not start.
func (b *Box) operate(r wire.Request, files []*os.File) (bool, error) {
	if err := b.acquire(); err != nil {
		return false, err
	}
	defer b.release()
	who, err := findUser(cmp.Or(r.User, b.config.User))
	if err != nil {
		return false, err
	}
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
		_ = unix.SetNonblock(int(fds[i]), false)
	}
	pid, ended, err := b.reaper.start(self, r.File, &syscall.ProcAttr{
		Dir: "/", Env: b.environment(who.Home), Files: fds, Sys: attributes(who),
	})
	if err != nil {
		return false, core.Errorf(core.KindExhausted, "files", "", "sb-guest cannot be started: %w", err)
	}
	status := b.attendHelper(r, pid, files, ended)
	return status.ExitStatus() == 0, nil
}

const (
	// callerPoll is how often the box checks that a caller is still there.
	callerPoll = 200 * time.Millisecond
	// helperGrace is how long sb-guest may take to undo an unfinished operation.
	helperGrace = 5 * time.Second
	// shortLimit bounds an operation with a short answer.
	shortLimit = 30 * time.Second
)

// attendHelper waits for the end of a file operation, and ends it when its caller leaves. It detects that by a
// descriptor whose other end is closed. Root inside can stop sb-guest, so the second signal is SIGKILL.
func (b *Box) attendHelper(
	r wire.Request, pid int, files []*os.File, ended <-chan syscall.WaitStatus,
) syscall.WaitStatus {
	began, left := time.Now(), time.Time{}
	tick := time.NewTicker(callerPoll)
	defer tick.Stop()
	for {
		select {
		case status := <-ended:
			return status
		case <-tick.C:
		}
		switch {
		case !left.IsZero() && time.Since(left) > helperGrace:
			_ = b.reaper.signal(pid, unix.SIGKILL)
		case left.IsZero() && (hungUp(files[:2]) || r.Verb == wire.VerbFile && time.Since(began) > shortLimit):
			left = time.Now()
			_ = b.reaper.signal(pid, unix.SIGTERM)
		}
	}
}

// hungUp reports whether the other end of one of the descriptors is closed.
func hungUp(files []*os.File) bool {
	polls := make([]unix.PollFd, len(files))
	for i, f := range files {
		polls[i] = unix.PollFd{Fd: int32(f.Fd()), Events: unix.POLLRDHUP} //nolint:gosec // a descriptor
	}
	n, err := unix.Poll(polls, 0)
	return err == nil && n > 0
}
